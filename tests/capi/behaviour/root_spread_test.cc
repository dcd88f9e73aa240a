// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/tensor_reference.h"

namespace shampoo_test {
namespace {

constexpr int kFrequency = 3;
constexpr int kStart = 4;

// Each parameter is one block, and each block has a phase: if a refresh of the group is due at step t, blocks of phase
// p are refreshed at step t + p. The first three blocks have equal costs and the phases 0, 1 and 2. The fourth block is
// cheaper and gets phase 0, the first of the least loaded phases.
const std::vector<std::vector<int>> kParams = {{6, 5}, {5, 6}, {6, 5}, {2, 2}};
constexpr int kPhases[] = {0, 1, 2, 0};

TEST_CASE("with root_spread, each block is updated like a reference whose refreshes are delayed by the block's phase") {
  std::vector<TensorReference> references;
  std::vector<shampoo_param_desc> params;
  const char* const names[] = {"a", "b", "c", "d"};
  for (size_t i = 0; i < kParams.size(); ++i) {
    references.emplace_back(kParams[i]);
    TensorReference& reference = references.back();
    reference.lr = 0.125;
    reference.spread = true;
    reference.frequency = kFrequency;
    reference.start = kStart + kPhases[i];
    params.push_back(Param(names[i], {kParams[i].begin(), kParams[i].end()}, SHAMPOO_F64));
  }
  for (const int32_t threads : {1, 3}) {
    Host host(KeysOf(references[0]) + Keys{{"start_preconditioning_step", std::to_string(kStart)}}, params, threads);
    std::vector<TensorReference> each = references;
    std::mt19937_64 random = host.FillFrom(2);
    std::vector<std::vector<double>> w;
    for (const Host::Tensors& tensor : host.tensors) w.push_back(tensor.w.Values());
    double roots_before = 0;
    for (int t = 1; t <= 14; ++t) {
      host.FillGradients(random);
      for (size_t i = 0; i < each.size(); ++i) each[i].Step(t, host.tensors[i].g.Values(), &w[i]);
      host.Step();
      CAPTURE(t);
      for (size_t i = 0; i < each.size(); ++i) {
        CAPTURE(i);
        CHECK(DistanceOf(host.tensors[i].w.Values(), w[i]) < 1e-9);
      }
      // Each block has two roots. No step computes the roots of two large blocks.
      const double roots = host.Stat("root_computed");
      CHECK(roots - roots_before == (t < kStart ? 0 : (t - kStart) % kFrequency == 0 ? 4 : 2));
      roots_before = roots;
    }
  }
}

TEST_CASE("without root_spread all roots are computed in the same steps") {
  const Keys keys = "precondition_frequency=3 start_preconditioning_step=4 use_merge_dims=false";
  Host host(keys, {Param("a", {6, 5}), Param("b", {5, 6})});
  std::mt19937_64 random = host.FillFrom(2);
  std::vector<double> computed;
  for (int t = 1; t <= 7; ++t) {
    host.RandomStep(random);
    computed.push_back(host.Stat("root_computed"));
  }
  CHECK(computed == std::vector<double>{0, 0, 0, 4, 4, 8, 8});
}

TEST_CASE("times are measured only if track_times is true") {
  for (const bool tracked : {false, true}) {
    Host host(Keys{{"track_times", tracked ? "true" : "false"}, {"grafting", "adam"}}, {Param("a", {60, 50})}, 2);
    std::mt19937_64 random = host.FillFrom(2);
    host.RandomStep(random);
    for (const char* part : {"check", "factor_update", "roots", "preconditioning", "elementwise"}) {
      CAPTURE(part);
      CHECK((host.Stat((std::string("seconds.") + part).c_str()) > 0) == tracked);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
