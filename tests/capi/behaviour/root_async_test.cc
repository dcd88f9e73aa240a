// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"
#include "tests/capi/behaviour/tensor_reference.h"

namespace shampoo_test {
namespace {

const Keys kAsync =
    "precondition_frequency=4 root_async=2 start_preconditioning_step=5 use_merge_dims=false grafting=adam "
    "momentum=0.9";
// With these keys, the roots of step 5 are used at once. The roots of steps 8 and 12 are used from steps 10 and 14 on.

double SnapshotStep(const Host& host, const std::string& param) { return host.Read(param + "/0/snapshot_step").Get(0); }

TEST_CASE("roots are used root_async steps after their refresh, except the first roots, which are used at once") {
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
      host.FillFrom(1);
      std::vector<double> w = host.tensors[0].w.Values();
      for (int t = 1; t <= 17; ++t) {
        CAPTURE(t);
        std::mt19937_64 random(static_cast<uint64_t>(t));
        host.FillGradients(random);
        reference.Step(t, host.tensors[0].g.Values(), &w);
        host.Step();
        CHECK(DistanceOf(host.tensors[0].w.Values(), w) < 1e-9);
      }
    }
  }
}

TEST_CASE("delayed roots in triangular or narrow storage equal the roots of an optimizer without root_async") {
  const Keys narrow = "factor_dtype=bf16 inverse_dtype=f16 epsilon=0.1";
  for (const Keys& more : {Keys{}, narrow}) {
    for (const int threads : {1, 3}) {
      const std::vector<shampoo_param_desc> params = {Param("a", {140, 130}), Param("b", {6, 5})};
      Host waiting(kAsync + "root_async=0" + more, params, threads);
      Host host(kAsync + more, params, threads);
      waiting.FillFrom(1);
      host.FillFrom(1);
      std::vector<std::vector<double>> expected;  // the inverse roots of step 8
      const auto inverses = [](const Host& of) {
        std::vector<std::vector<double>> values;
        for (const char* key : {"a/0/inverse.0", "a/0/inverse.1", "b/0/inverse.0"})
          values.push_back(of.Read(key).Values());
        return values;
      };
      for (uint64_t t = 1; t <= 11; ++t) {
        CAPTURE(t);
        waiting.StepFrom(t);
        host.StepFrom(t);
        if (t < 8) CHECK((inverses(host) == inverses(waiting)));
        if (t == 8) expected = inverses(waiting);
        if (t == 8 || t == 9) CHECK((inverses(host) != inverses(waiting)));
        if (t >= 10) CHECK((inverses(host) == expected));
      }
      CHECK(host.Stat("root_computed") == 8);
    }
  }
}

// The steps at which a block has a gradient, and the steps at which it starts to use new roots.
struct BlockHistory {
  std::string name;
  std::function<bool(uint64_t t)> has_gradient;
  std::map<uint64_t, uint64_t> used;  // key: step of first use; value: step of the refresh
};

bool IsAmong(uint64_t t, std::initializer_list<uint64_t> steps) {
  return std::find(steps.begin(), steps.end(), t) != steps.end();
}

// Refreshes are due at steps 5, 8, 12, 16 and 20.
const std::vector<BlockHistory> kBlockHistories = {
    {"at all steps", [](uint64_t) { return true; }, {{5, 5}, {10, 8}, {14, 12}, {18, 16}}},
    {"not at 8", [](uint64_t t) { return t != 8; }, {{5, 5}, {14, 12}, {18, 16}}},
    {"not at 10", [](uint64_t t) { return t != 10; }, {{5, 5}, {11, 8}, {14, 12}, {18, 16}}},
    {"not at 10 and 11",
     [](uint64_t t) {
       return !IsAmong(t, {10, 11});
     },
     {{5, 5}, {12, 12}, {18, 16}}},
    {"not at 10, 11 and 12",
     [](uint64_t t) {
       return !IsAmong(t, {10, 11, 12});
     },
     {{5, 5}, {13, 8}, {18, 16}}},
    {"from 6 on", [](uint64_t t) { return t >= 6; }, {{8, 8}, {14, 12}, {18, 16}}},
    {"at multiples of 4", [](uint64_t t) { return t % 4 == 0; }, {{8, 8}, {16, 16}}},
};
constexpr uint64_t kLastStep = 21;

TEST_CASE("if a block misses gradients, pending roots are used at its next gradient, unless a refresh is due then") {
  for (const BlockHistory& history : kBlockHistories) {
    CAPTURE(history.name);
    const std::vector<shampoo_param_desc> params = {Param("a", {6, 5}), Param("b", {4, 3})};
    Host waiting(kAsync + "root_async=0", params);
    Host host(kAsync, params);
    waiting.FillFrom(1);
    host.FillFrom(1);
    const auto inverse = [](const Host& of) { return of.Read("b/0/inverse.0").Values(); };
    std::vector<std::vector<double>> of_step(kLastStep + 1);
    std::vector<double> expected = inverse(host);
    for (uint64_t t = 1; t <= kLastStep; ++t) {
      CAPTURE(t);
      waiting.tensors[1].has_grad = host.tensors[1].has_grad = history.has_gradient(t);
      waiting.StepFrom(t);
      host.StepFrom(t);
      of_step[t] = inverse(waiting);
      const auto used = history.used.find(t);
      if (used != history.used.end()) {
        CHECK(expected != of_step[used->second]);
        expected = of_step[used->second];
      }
      CHECK((inverse(host) == expected));
    }
  }
}

TEST_CASE("snapshot_step is the step of the snapshots or, without snapshots, minus the step of the roots in use") {
  Host host(kAsync, {Param("a", {6, 5}), Param("b", {4, 3})});
  host.FillFrom(1);
  const std::map<uint64_t, double> expected = {{4, 0}, {7, -5}, {9, 8}, {10, 8}, {11, -8}, {13, 12}, {14, -12}};
  for (uint64_t t = 1; t <= 14; ++t) {
    host.tensors[1].has_grad = t != 10;
    host.StepFrom(t);
    const auto found = expected.find(t);
    CAPTURE(t);
    if (found != expected.end()) CHECK(SnapshotStep(host, "b") == found->second);
  }
}

TEST_CASE(
    "steps that read one arena and write another are bit-identical to steps in place, even if a block lacks a "
    "gradient in some steps") {
  for (const BlockHistory& history : kBlockHistories) {
    CAPTURE(history.name);
    const std::vector<shampoo_param_desc> params = {Param("a", {6, 5}), Param("b", {4, 3})};
    Host in_place(kAsync, params);
    Host host(kAsync, params);
    in_place.FillFrom(1);
    host.FillFrom(1);
    int64_t bytes = 0;
    RequireOk(shampoo_plan_bytes(host.plan, 0, "state", &bytes));
    const auto make_arena = [&] {
      return std::unique_ptr<char, void (*)(void*)>(
          static_cast<char*>(std::aligned_alloc(256, (static_cast<size_t>(bytes) + 255) / 256 * 256)), &std::free);
    };
    const std::unique_ptr<char, void (*)(void*)> arenas[] = {make_arena(), make_arena()};
    std::fill_n(arenas[0].get(), static_cast<size_t>(bytes), char{0});
    RequireOk(shampoo_optimizer_bind_state(host.optimizer, arenas[0].get(), arenas[0].get()));
    for (const Host::Entry& entry : in_place.Entries()) {
      const std::vector<char> initial = in_place.Read(entry).bytes();
      RequireOk(shampoo_state_write(host.optimizer, entry.index, 0, static_cast<int64_t>(entry.elements),
                                    initial.data(), initial.size(), SHAMPOO_CPU, nullptr));
    }
    for (uint64_t t = 1; t <= kLastStep; ++t) {
      in_place.tensors[1].has_grad = host.tensors[1].has_grad = history.has_gradient(t);
      in_place.StepFrom(t);
      std::fill_n(arenas[t % 2].get(), static_cast<size_t>(bytes), char{0x5a});
      RequireOk(shampoo_optimizer_bind_state(host.optimizer, arenas[1 - t % 2].get(), arenas[t % 2].get()));
      host.StepFrom(t);
      CAPTURE(t);
      in_place.CheckSameStates(host);
    }
  }
}

TEST_CASE("training continues with bit-identical results from a checkpoint of any step") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("shampoo_async" + std::to_string(getpid()));
  const std::vector<shampoo_param_desc> params = {Param("a", {6, 5}), Param("b", {7, 3})};
  for (const BlockHistory& history : kBlockHistories) {
    CAPTURE(history.name);
    const auto step = [&](Host* host, uint64_t t) {
      host->tensors[1].has_grad = history.has_gradient(t);
      host->StepFrom(t);
    };
    for (uint64_t saved = 1; saved < kLastStep; ++saved) {
      std::filesystem::remove_all(folder);
      Host first(kAsync, params);
      Host second(kAsync, params);
      first.FillFrom(1);
      second.FillFrom(1);
      for (uint64_t t = 1; t <= saved; ++t) step(&first, t);
      for (uint64_t t = 20; t < 29; ++t) second.StepFrom(t);  // so that the load must replace pending roots
      RequireOk(shampoo_save(&first.optimizer, 1, nullptr, folder.c_str(), nullptr));
      RequireOk(shampoo_load(&second.optimizer, 1, nullptr, folder.c_str(), nullptr));
      second.CopyParams(first);
      for (uint64_t t = saved + 1; t <= kLastStep; ++t) {
        step(&first, t);
        step(&second, t);
      }
      CAPTURE(saved);
      first.CheckSameStates(second);
    }
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("a checkpoint is loaded without pending roots if root_async was 0 when it was saved or is 0 now") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("shampoo_async_other" + std::to_string(getpid()));
  const std::vector<shampoo_param_desc> params = {Param("a", {6, 5})};
  const Keys without = kAsync + "root_async=0";
  for (const bool from_async : {false, true}) {
    std::filesystem::remove_all(folder);
    Host first(from_async ? kAsync : without, params);
    Host second(from_async ? without : kAsync, params);
    first.FillFrom(1);
    second.FillFrom(1);
    for (uint64_t t = 1; t <= 9; ++t) first.StepFrom(t);
    for (uint64_t t = 20; t < 28; ++t) second.StepFrom(t);
    RequireOk(shampoo_save(&first.optimizer, 1, nullptr, folder.c_str(), nullptr));
    Listener listener(1);
    RequireOk(shampoo_load(&second.optimizer, 1, nullptr, folder.c_str(), nullptr));
    bool reported = false;
    for (const std::string& line : listener.Take()) {
      reported = reported || Has(line, {"the snapshot_step of 1 block of the checkpoint is not loaded"});
    }
    CHECK(reported == from_async);
    const std::vector<double> inverse = first.Read("a/0/inverse.0").Values();
    CHECK((second.Read("a/0/inverse.0").Values() == inverse));
    if (!from_async) CHECK(SnapshotStep(second, "a") == 0);
    for (uint64_t t = 10; t <= 11; ++t) second.StepFrom(t);
    CHECK((second.Read("a/0/inverse.0").Values() == inverse));
    // After a load without snapshot_step, the next roots are used at once, like first roots.
    second.StepFrom(12);
    CHECK((second.Read("a/0/inverse.0").Values() != inverse));
    if (!from_async) CHECK(SnapshotStep(second, "a") == -12);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shampoo_test
