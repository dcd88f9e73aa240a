// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of gradients that are not finite (errors and the key on_nonfinite), and of gradients that are zero or constant.
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

TEST_CASE("a block whose gradients were zero for a long time is updated when nonzero gradients return") {
  // While the gradients are zero, the factor matrices of the block decay. After enough steps, their elements are
  // subnormal numbers, and rounding prevents these numbers from reaching 0.
  for (const int zeros : {1500, 1700, 2000, 3000}) {
    CAPTURE(zeros);
    const Keys keys =
        "epsilon=0 root_relative_epsilon=3e-4 refresh_growth=0.1 beta2=0.95 grafting=adam inverse_root_override=2 "
        "precondition_frequency=25 use_merge_dims=false";
    Host host(keys, {Param("w", {4, 4})});
    std::mt19937_64 random = host.FillFrom(5);
    for (int t = 0; t < 30 + zeros + 60; ++t) {
      host.FillGradients(random);
      if (t >= 30 && t < 30 + zeros) {
        for (size_t i = 0; i < 16; ++i) host.tensors[0].g.Set(i, 0);
      }
      host.Step();
    }
    CHECK(host.Stat("nonfinite_blocks") == 0);
  }
}

const Keys kAll = "grafting=adam momentum=0.5 weight_decay=0.01 use_merge_dims=false max_preconditioner_dim=4";

std::vector<shampoo_param_desc> Params() { return {Param("w", {6, 5}), Param("b", {5})}; }

TEST_CASE("a run that continues after an infinite gradient is bit-identical to a run without the failed step") {
  for (const char* method : {"eigen", "newton", "higher_order", "cans"}) {
    CAPTURE(method);
    Host bad(kAll + Keys{{"root_method", method}}, Params(), 2);
    Host good(kAll + Keys{{"root_method", method}}, Params(), 2);
    std::mt19937_64 random = bad.FillFrom(1);
    random.seed(1);
    good.Fill(random);
    for (int step = 0; step < 12; ++step) {
      random.seed(100 + static_cast<uint64_t>(step));
      bad.FillGradients(random);
      if (step == 5) {
        bad.tensors[0].g.Set(7, INFINITY);
        bad.Bind();
        CHECK(shampoo_optimizer_step(bad.optimizer, nullptr) == SHAMPOO_E_NUMERIC);
        continue;
      }
      random.seed(100 + static_cast<uint64_t>(step));
      good.FillGradients(random);
      bad.Step();
      good.Step();
    }
    CHECK(bad.Everything() == good.Everything());
  }
}

TEST_CASE("with skip_step, a step with an invalid gradient succeeds, changes nothing and is counted") {
  Listener listener(1);
  Host host(kAll + "on_nonfinite=skip_step", Params(), 2);
  listener.Take();
  std::mt19937_64 random = host.FillFrom(1);
  host.RandomStep(random);
  for (const double value : {static_cast<double>(NAN), static_cast<double>(INFINITY), 1e25}) {
    CAPTURE(value);
    host.FillGradients(random);
    host.tensors[0].g.Set(29, value);
    const auto before = host.Everything();
    const double skipped = host.Stat("skipped_steps");
    host.Step();
    CHECK(host.Everything() == before);
    CHECK(host.Stat("steps") == 1);
    CHECK(host.Stat("skipped_steps") == skipped + 1);
    CHECK(host.Stat("nonfinite_blocks") == skipped + 1);
    listener.CheckOneMessage({"1 ", "a step is skipped", "\"w\"", "w/3", "element 29"});
  }
  // If the gradients of two blocks have NaN, the library counts both blocks and logs one message. The message does not
  // advise to set on_nonfinite.
  const double counted = host.Stat("nonfinite_blocks");
  for (const size_t at : {0, 29}) host.tensors[0].g.Set(at, NAN);
  host.Step();
  CHECK(host.Stat("nonfinite_blocks") == counted + 2);
  const std::vector<std::string> messages = listener.Take();
  REQUIRE(messages.size() == 1);
  CHECK_MESSAGE(Has(messages[0], {"a step is skipped", "w/0", "element 0"}), messages[0]);
  CHECK_MESSAGE(!Has(messages[0], {"on_nonfinite"}), messages[0]);
  host.RandomStep(random);
  CHECK(host.Stat("steps") == 2);
  CHECK(host.Steps(0) == 2);
}

TEST_CASE("with skip_step, a skipped step writes the unchanged parameter or a zero update to a separate output") {
  for (const char* output : {"parameters", "updates"}) {
    CAPTURE(output);
    shampoo_param_desc desc = Param("w", {6, 5});
    desc.out_dtype = SHAMPOO_F64;
    desc.copy_dtype = SHAMPOO_BF16;
    Host host(kAll + Keys{{"on_nonfinite", "skip_step"}, {"output", output}}, {desc});
    host.FillFrom(1);
    host.tensors[0].g.Set(0, NAN);
    const Array w = host.tensors[0].w;
    host.Bind();
    RequireOk(shampoo_optimizer_step(host.optimizer, nullptr));
    const bool updates = output == std::string("updates");
    for (size_t i = 0; i < w.size(); ++i) {
      CHECK(host.tensors[0].out.Get(i) == (updates ? 0 : w.Get(i)));
      CHECK(host.tensors[0].copy.Get(i) == Rounded(w.Get(i), SHAMPOO_BF16));
    }
  }
}

TEST_CASE("with skip_block, the affected block is unchanged, and the other blocks are updated as usual") {
  Listener listener(1);
  Host host(kAll + "on_nonfinite=skip_block", Params(), 2);
  Host sound(kAll, Params(), 2);
  listener.Take();
  std::mt19937_64 random = host.FillFrom(1);
  random.seed(1);
  sound.Fill(random);
  const auto both = [&](uint64_t seed) {
    for (Host* one : {&host, &sound}) {
      random.seed(seed);
      one->FillGradients(random);
    }
  };
  both(2);
  host.Step();
  sound.Step();
  both(3);
  host.tensors[0].g.Set(29, NAN);  // element (5, 4) is in block 3: rows 4 and 5 of column 4
  const Array w_before = host.tensors[0].w;
  std::vector<std::pair<std::string, Array>> frozen;
  for (const Host::Entry& entry : host.Entries()) {
    if (std::string(entry.info.key).rfind("w/3/", 0) == 0) frozen.emplace_back(entry.info.key, host.Read(entry));
  }
  REQUIRE(frozen.size() == 8);
  host.Step();
  sound.Step();
  for (const auto& [key, value] : frozen) CHECK_MESSAGE(host.Read(key) == value, key);
  for (const Host::Entry& entry : host.Entries()) {
    const std::string key = entry.info.key;
    if (key.rfind("w/3/", 0) != 0) CHECK_MESSAGE(host.Read(entry) == sound.Read(key), key);
  }
  for (size_t i = 0; i < 30; ++i) {
    const bool in_block = i == 24 || i == 29;
    CHECK(host.tensors[0].w.Get(i) == (in_block ? w_before : sound.tensors[0].w).Get(i));
  }
  CHECK(host.tensors[1].w == sound.tensors[1].w);
  CHECK(host.Stat("nonfinite_blocks") == 1);
  CHECK(host.Stat("skipped_steps") == 0);
  CHECK(host.Stat("steps") == 2);
  listener.CheckOneMessage({"1 ", "a block is skipped", "NaN", "w/3", "element 29"});
}

TEST_CASE("each group has its own on_nonfinite, and an error takes precedence over a skip") {
  Host host({kAll + "on_nonfinite=skip_block", kAll + "on_nonfinite=error"}, [] {
    std::vector<shampoo_param_desc> params = Params();
    params[1].group = 1;
    return params;
  }());
  std::mt19937_64 random = host.FillFrom(1);
  host.FillGradients(random);
  host.tensors[0].g.Set(0, NAN);
  host.Step();
  CHECK(host.Stat("nonfinite_blocks") == 1);
  host.tensors[1].g.Set(0, NAN);
  const auto before = host.Everything();
  CHECK(shampoo_optimizer_step(host.optimizer, nullptr) == SHAMPOO_E_NUMERIC);
  CHECK(host.Everything() == before);
  CHECK(host.Stat("nonfinite_blocks") == 1);
}

// All rows of the gradient of w are equal, so the factor matrices of w have rank 1, or rank 0 if the gradients are 0.
// If b has a factor matrix, this matrix has the same rank.
TEST_CASE("1000 steps with the same gradients or with zeros succeed, and the parameters stay finite") {
  const Keys with_epsilon = "epsilon=1e-12";
  const Keys without = "root_rank_handling=pseudo_inverse epsilon=0";
  for (const Keys& rank : {with_epsilon, without}) {
    for (const char* grafting : {"none", "adam"}) {
      for (const bool zero : {false, true}) {
        CAPTURE_ALL(rank[0].first, grafting, zero);
        Host host(rank + "start_preconditioning_step=1 use_merge_dims=false lr=1e-3" + Keys{{"grafting", grafting}},
                  {Param("w", {12, 7}), Param("b", {9}), Param("t", {3, 4, 5})}, 2);
        host.FillFrom(1);
        for (Host::Tensors& tensor : host.tensors) {
          for (size_t i = 0; i < tensor.g.size(); ++i) tensor.g.Set(i, zero ? 0 : std::cos(static_cast<double>(i % 7)));
        }
        for (int step = 0; step < 1000; ++step) host.Step();
        CHECK(host.Stat("root_reused") == 0);
        CHECK(host.IsFinite());
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
