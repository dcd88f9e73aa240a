// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that blocks of equal shape are processed together: the number of kernel launches of a step does not depend on
// the number of blocks.
#include <array>

#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

using Counts = std::array<int64_t, 3>;  // of kernel launches, matrix products and eigenproblems

// Returns the counts of steps 2 to 5, of which steps 2 and 4 compute roots. Buffers are bound only before
// step 1, because the first step with new buffers makes additional launches.
std::vector<Counts> CountsOf(const Keys& keys, const std::vector<ParamSpec>& params) {
  const Stage stage;
  fake_cuda_set_protection(0);
  ModelSpec spec;
  spec.keys = Keys("grafting=adam precondition_frequency=2 use_merge_dims=false") + keys;
  spec.params = params;
  Model model(spec);
  model.Step(1);
  std::vector<Counts> counts;
  for (int t = 2; t <= 5; ++t) {
    fake_cuda_mark();
    Must(shampoo_optimizer_step(model.optimizer, model.stream));
    counts.push_back({fake_cuda_count(FAKE_CUDA_LAUNCHES), fake_cuda_count(FAKE_CUDA_PRODUCTS),
                      fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS)});
  }
  return counts;
}

// Checks that the counts are equal for 1, 10 and 1000 blocks. The blocks are first separate parameters, and then parts
// of one parameter.
void CheckTenAndAThousand(const Keys& keys, const std::vector<int64_t>& shape) {
  const auto params = [&](size_t count) { return std::vector<ParamSpec>(count, ParamSpec{shape}); };
  const std::vector<Counts> of_one = CountsOf(keys, params(1));
  REQUIRE(of_one.size() == 4);
  CHECK(of_one[0][0] > 10);
  CHECK(of_one[1][1] > 0);
  CHECK(CountsOf(keys, params(10)) == of_one);
  CHECK(CountsOf(keys, params(1000)) == of_one);
  const auto cut = [&](int64_t count) {
    Keys with = keys;
    with.emplace_back("max_preconditioner_dim", std::to_string(shape[0]));
    std::vector<int64_t> large = shape;
    large[0] *= count;
    return CountsOf(with, {ParamSpec{large}});
  };
  CHECK(cut(10) == of_one);
  CHECK(cut(1000) == of_one);
}

TEST_CASE("a step makes equally many launches, products and eigensolver calls for 10 and for 1000 blocks of one shape" *
          NeedsFake()) {
  for (const char* method : {"eigen", "newton", "higher_order", "cans"}) {
    CAPTURE(std::string(method));
    // A batch makes as many iterations as its slowest matrix needs. If only few iterations are allowed, all batches
    // make the same number of iterations.
    CheckTenAndAThousand({{"root_method", method}, {"root_max_iterations", "8"}, {"epsilon", "1"}}, {4, 3});
  }
}

TEST_CASE("a step with 1000 small vectors makes as many kernel launches as a step with 10" * NeedsFake()) {
  CheckTenAndAThousand({}, {5});
  CheckTenAndAThousand({}, {1});
}

// The middle dim of a tensor of order 3 is moved to the front for the product with the inverse root of this dim.
TEST_CASE("a step with 1000 tensors of order 3 makes as many kernel launches as a step with 10" * NeedsFake()) {
  CheckTenAndAThousand({}, {3, 2, 3});
}

TEST_CASE("a step with more blocks than one call of cuBLAS accepts equals the step on the CPU") {
  const Stage stage;
  fake_cuda_set_protection(0);
  ModelSpec spec{.keys = "max_preconditioner_dim=1 precondition_frequency=1 use_merge_dims=false",
                 .params = {{{70000}}}};
  Pair pair(spec);
  pair.StepBoth(1);
  CHECK(Distance(pair.device.ParamValues(0), pair.host.ParamValues(0)) < 1e-6);
}

TEST_CASE("after buffers are bound again, a step passes the addresses of at most 64 parameters in each launch" *
          NeedsFake()) {
  const Stage stage;
  ModelSpec spec;
  spec.params = std::vector<ParamSpec>(129, ParamSpec{{2}});
  Model model(spec);
  model.FillGradients(1);
  for (int t = 1; t <= 2; ++t) {
    fake_cuda_mark();
    model.Step();
    CHECK(fake_cuda_launches_of("SetBuffers") == 3);
    fake_cuda_mark();
    Must(shampoo_optimizer_step(model.optimizer, model.stream));
    CHECK(fake_cuda_launches_of("SetBuffers") == 0);
  }
}

}  // namespace
}  // namespace shampoo_test
