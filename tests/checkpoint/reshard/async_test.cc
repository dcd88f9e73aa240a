// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of checkpoints with root_async. Some blocks have no gradient in some steps. A job with other numbers of
// replicas or shards continues from the checkpoint of each step. Its results must be bit-identical to those of an
// uninterrupted run.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/capture.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

constexpr uint64_t kLast = 18;

RankSpec Spec(const Keys& more) {
  RankSpec spec = SmallModel(
      "beta2=0.9 start_preconditioning_step=5 precondition_frequency=4 root_async=2 shard_mode=gather" + more);
  spec.params = {{"all", {9, 7}}, {"late", {6, 5}}, {"rare", {3, 5}}, {"gaps", {4, 4}}};
  return spec;
}

// With the preset of the tests, shampoo_2024, and without root_spread, refreshes are in steps 5, 8, 12 and 16.
bool HasGradient(size_t param, uint64_t t) {
  if (param == 1) return t >= 6;                 // the first refresh, in step 5, is before the first gradient
  if (param == 2) return t % 4 == 0;             // after step 4, gradients only in steps with a refresh
  if (param == 3) return t != 10 && t % 7 != 0;  // step 10 is the first that can use the roots of step 8
  return true;
}

struct Job {
  int replicas, shards;
  Division division;
};
const std::vector<Job> kJobs = {{1, 1, Division::kFlat},
                                {2, 1, Division::kFlat},
                                {1, 3, Division::kFlat},
                                {2, 2, Division::kRows},
                                {1, 2, Division::kRows}};

class Run {
 public:
  Run(const RankSpec& spec, const Job& job) : grid(spec, job.replicas, Divide(spec.params, job.division, job.shards)) {
    RequireCreate(&grid);
  }
  void Step(uint64_t t) {
    grid.FillGradients(100 + t);
    for (int rank = 0; rank < grid.world(); ++rank) {
      for (size_t p = 0; p < grid[rank].has_grad.size(); ++p) grid[rank].has_grad[p] = HasGradient(p, t);
    }
    RequireStep(&grid);
  }
  Grid grid;
};

void CheckJobs(const Keys& more) {
  const RankSpec spec = Spec(more);
  Rank one(spec);
  RequireOk(one);
  Fill(1, &one.w);
  std::vector<Tensors> expected = {one.w};  // the parameters after each step
  for (uint64_t t = 1; t <= kLast; ++t) {
    Fill(100 + t, &one.g);
    for (size_t p = 0; p < one.has_grad.size(); ++p) one.has_grad[p] = HasGradient(p, t);
    RequireStep(&one);
    expected.push_back(one.w);
  }
  for (size_t saver = 0; saver < kJobs.size(); ++saver) {
    const Scratch scratch;
    const auto directory = [&](uint64_t t) { return scratch / std::to_string(t); };
    Run saved(spec, kJobs[saver]);
    saved.grid.FillParams(1);
    for (uint64_t t = 1; t <= kLast; ++t) {
      saved.Step(t);
      CAPTURE_ALL(saver, t);
      CHECK(saved.grid.AllHold(expected[t]));
      RequireSave(&saved.grid, directory(t));
    }
    for (uint64_t from = 1; from < kLast; ++from) {
      const size_t loader = (saver + 1 + from % (kJobs.size() - 1)) % kJobs.size();
      Run resumed(spec, kJobs[loader]);
      RequireLoad(&resumed.grid, directory(from));
      resumed.grid.SetParams(expected[from]);
      for (uint64_t t = from + 1; t <= kLast; ++t) {
        resumed.Step(t);
        CAPTURE_ALL(saver, loader, from, t);
        CHECK(resumed.grid.AllHold(expected[t]));
      }
    }
  }
}

TEST_CASE(
    "with root_async and missing gradients, a job with other replicas or shards continues with bit-identical results") {
  CheckJobs({});
}

TEST_CASE(
    "with root_spread and missing gradients, a job with other replicas or shards continues with bit-identical "
    "results") {
  CheckJobs("root_spread=true");
  CheckJobs("refresh_growth=0.5 root_spread=true start_preconditioning_step=1");
}

}  // namespace
}  // namespace shampoo_test
