// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"
#include "tests/capi/behaviour/tensor_reference.h"

namespace shampoo_test {
namespace {

const Keys kAsync = {{"precondition_frequency", "4"}, {"root_async", "2"},  {"start_preconditioning_step", "5"},
                     {"use_merge_dims", "false"},     {"grafting", "adam"}, {"momentum", "0.9"}};
// Roots of step 5 at once, of 8 from 10 on, of 12 from 14 on.

void StepWith(Host* host, uint64_t seed) {
  std::mt19937_64 random(seed);
  host->FillGradients(random);
  host->Step();
}

int64_t SnapshotStep(const Host& host, const std::string& param) {
  int64_t step = -1;
  const Host::Entry entry = host.Find(param + "/0/snapshot_step");
  Must(shampoo_state_read(host.optimizer, entry.index, 0, 1, &step, sizeof step, SHAMPOO_CPU, nullptr));
  return step;
}

void FillParams(Host* host) {
  std::mt19937_64 random(1);
  host->Fill(random);
}

TEST_CASE("roots are those of root_async steps before, but for the first") {
  struct Schedule {
    int frequency, start, async;
    bool spread;
  };
  for (const Schedule& schedule : {Schedule{4, 5, 1, false}, {4, 5, 3, false}, {4, 4, 2, false}, {3, 4, 2, true}}) {
    for (const double beta2 : {0.9, 1.0}) {
      TensorReference reference({5, 4, 3});
      reference.frequency = schedule.frequency;
      reference.start = schedule.start;
      reference.async = schedule.async;
      reference.spread = schedule.spread;
      reference.beta2 = beta2 == 1 ? 0.999 : beta2;
      Host host(KeysOf(reference), {Param("a", {5, 4, 3}, SHAMPOO_F64)});
      FillParams(&host);
      std::vector<double> w = host.tensors[0].w.Values();
      for (int t = 1; t <= 17; ++t) {
        CAPTURE(t);
        std::mt19937_64 random(static_cast<uint64_t>(t));
        host.FillGradients(random);
        reference.Step(t, host.tensors[0].g.Values(), &w);
        host.Step();
        const std::vector<double> seen = host.tensors[0].w.Values();
        double largest = 0;
        for (size_t i = 0; i < w.size(); ++i) largest = std::max(largest, std::fabs(seen[i] - w[i]));
        CHECK(largest < 1e-9);
      }
    }
  }
}

TEST_CASE("roots of kept triangles and narrow dtypes are those of an optimizer that does not wait") {
  const Keys narrow = {{"factor_dtype", "bf16"}, {"inverse_dtype", "f16"}, {"epsilon", "0.1"}};
  for (const Keys& more : {Keys{}, narrow}) {
    for (const int threads : {1, 3}) {
      const std::vector<shampoo_param_desc> params = {Param("a", {140, 130}), Param("b", {6, 5})};
      Host waiting(kAsync + Keys{{"root_async", "0"}} + more, params, threads);
      Host host(kAsync + more, params, threads);
      FillParams(&waiting);
      FillParams(&host);
      std::vector<std::vector<double>> expected;  // of step 8
      const auto inverses = [](const Host& of) {
        std::vector<std::vector<double>> values;
        for (const char* key : {"a/0/inverse.0", "a/0/inverse.1", "b/0/inverse.0"})
          values.push_back(of.Read(key).Values());
        return values;
      };
      for (uint64_t t = 1; t <= 11; ++t) {
        CAPTURE(t);
        StepWith(&waiting, t);
        StepWith(&host, t);
        if (t < 8) CHECK((inverses(host) == inverses(waiting)));
        if (t == 8) expected = inverses(waiting);
        if (t == 8 || t == 9) CHECK((inverses(host) != inverses(waiting)));
        if (t >= 10) CHECK((inverses(host) == expected));
      }
      CHECK(host.Stat("root_computed") == 8);
    }
  }
}

TEST_CASE("a block without a gradient when its roots are due, or taken over, keeps those that it has") {
  for (const uint64_t missing : {8, 10}) {
    Host host(kAsync, {Param("a", {6, 5}), Param("b", {4, 3})});
    FillParams(&host);
    std::vector<double> before;
    for (uint64_t t = 1; t <= 14; ++t) {
      host.tensors[1].has_grad = t != missing;
      StepWith(&host, t);
      const std::vector<double> now = host.Read("b/0/inverse.0").Values();
      CAPTURE(missing);
      CAPTURE(t);
      CHECK((now == before) == (t != 1 && t != 5 && t != 14));
      before = now;
      if (t == 9) CHECK(SnapshotStep(host, "b") == (missing == 8 ? 0 : 8));
    }
  }
}

TEST_CASE("training goes on from a checkpoint of any step, with what was kept") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("shampoo_async" + std::to_string(getpid()));
  const std::vector<shampoo_param_desc> params = {Param("a", {6, 5}), Param("b", {7})};
  for (uint64_t saved = 1; saved <= 14; ++saved) {
    std::filesystem::remove_all(folder);
    Host first(kAsync, params);
    Host second(kAsync, params);
    FillParams(&first);
    FillParams(&second);
    for (uint64_t t = 1; t <= saved; ++t) StepWith(&first, t);
    for (uint64_t t = 20; t < 29; ++t) StepWith(&second, t);  // it has something waiting
    Must(shampoo_save(&first.optimizer, 1, nullptr, folder.c_str(), nullptr));
    Must(shampoo_load(&second.optimizer, 1, nullptr, folder.c_str(), nullptr));
    for (size_t p = 0; p < params.size(); ++p) second.tensors[p].w = first.tensors[p].w;
    for (uint64_t t = saved + 1; t <= 16; ++t) {
      StepWith(&first, t);
      StepWith(&second, t);
    }
    CAPTURE(saved);
    for (const Host::Entry& entry : first.Entries()) {
      CHECK_MESSAGE(first.Read(entry).bytes() == second.Read(entry.info.key).bytes(), entry.info.key);
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a checkpoint with other root_async is loaded, and what waits is left out") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("shampoo_async_other" + std::to_string(getpid()));
  const std::vector<shampoo_param_desc> params = {Param("a", {6, 5})};
  const Keys without = kAsync + Keys{{"root_async", "0"}};
  for (const bool from_async : {false, true}) {
    std::filesystem::remove_all(folder);
    Host first(from_async ? kAsync : without, params);
    Host second(from_async ? without : kAsync, params);
    FillParams(&first);
    FillParams(&second);
    for (uint64_t t = 1; t <= 9; ++t) StepWith(&first, t);
    for (uint64_t t = 20; t < 28; ++t) StepWith(&second, t);
    Must(shampoo_save(&first.optimizer, 1, nullptr, folder.c_str(), nullptr));
    Listener listener(1);
    Must(shampoo_load(&second.optimizer, 1, nullptr, folder.c_str(), nullptr));
    bool told = false;
    for (const std::string& line : listener.Take()) {
      told = told || Has(line, {"the snapshot_step of 1 block of the checkpoint is left out"});
    }
    CHECK(told == from_async);
    const std::vector<double> inverse = first.Read("a/0/inverse.0").Values();
    CHECK((second.Read("a/0/inverse.0").Values() == inverse));
    if (!from_async) CHECK(SnapshotStep(second, "a") == 0);
    for (uint64_t t = 10; t <= 11; ++t) StepWith(&second, t);
    CHECK((second.Read("a/0/inverse.0").Values() == inverse));
    for (uint64_t t = 12; t <= 14; ++t) StepWith(&second, t);
    CHECK((second.Read("a/0/inverse.0").Values() != inverse));
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("roots that are not in use before the next are refused") {
  shampoo_config* config = MakeConfig({{"precondition_frequency", "3"}, {"root_async", "3"}});
  shampoo_plan* plan = nullptr;
  const shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  CHECK(shampoo_plan_create(&plan, config, &desc) == SHAMPOO_E_INVALID);
  CHECK(std::string(shampoo_last_error()).find("root_async is 3 and precondition_frequency is 3") != std::string::npos);
  shampoo_config_destroy(config);
}

}  // namespace
}  // namespace shampoo_test
