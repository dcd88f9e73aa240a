// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "core/step/host_roots.h"
#include "tests/core/fake_device.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {

// A factor matrix F with the eigenvalues 4 and 1, and its inverse root F^(-1/2).
inline const std::vector<double> kFactorOnHost = {2.08, 1.44, 1.44, 2.92};
inline const std::vector<double> kRootOnHost = {0.82, -0.24, -0.24, 0.68};

// Fixture for tests of HostRoots: the host computes the inverse roots of an optimizer whose state is on a fake device.
// Each block is a matrix with two rows. Each factor matrix that the fake device returns is kFactorOnHost until the test
// changes host.matrices. If `columns` is not 2, the test must change host.matrices for dim 1, or pass keys with which
// dim 1 has no factor matrices.
struct RootsOnHost {
  explicit RootsOnHost(size_t blocks, const OptionKeys& keys = {}, const Placement& placement = {}, int64_t columns = 2)
      : device(FakeDevice::Reset()),
        plan(PlanOf(blocks, keys, placement, columns)),
        host(*plan),
        tasks(blocks, RootTask::kTakeSnapshot),
        steps(blocks, 1) {
    std::unique_ptr<cuda::DeviceEngine> made;
    StepFixture::Ok(cuda::DeviceEngine::Create(plan, {}, &made));
    engine = std::move(made);
    for (const GroupSettings& group : plan->groups) settings.push_back(cuda::DeviceSettingsOf(group));
    for (size_t b = 0; b < blocks; ++b) {
      for (const int k : {0, 1}) host.matrices[{static_cast<int64_t>(b), k}] = kFactorOnHost;
    }
  }
  static std::shared_ptr<const PlanData> PlanOf(size_t blocks, const OptionKeys& keys, Placement placement,
                                                int64_t columns) {
    placement.device = DeviceType::kCuda;
    return StepFixture::MakePlan(
        {.keys = "root_device=host root_async=2 precondition_frequency=4 use_merge_dims=false "
                 "beta2=1 root_relative_epsilon=0 epsilon=1e-30" +
                 keys,
         .params = StepFixture::Describe(std::vector<std::vector<int64_t>>(blocks, {2, columns})),
         .placement = placement});
  }
  void Create() { StepFixture::Ok(HostRoots::Create(*plan, engine, &roots)); }
  Status Start(RootTask task = RootTask::kTakeSnapshot, bool steps_are_by_block = true) {
    return roots->Start({&tasks, task, &settings, steps.data(), steps_are_by_block, nullptr, nullptr});
  }
  // Creates `roots`, starts to compute the inverse roots of all blocks, and waits until they have been computed.
  void Run() {
    Create();
    CheckOk(Start());
    CheckOk(roots->WaitFor(tasks));
  }
  void CheckRoot(int64_t block, int dim, const std::vector<double>& expected) {
    const std::vector<double>& root = host.roots[{block, dim}];
    REQUIRE(root.size() == expected.size());
    for (size_t i = 0; i < root.size(); ++i) CHECK(root[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }

  FakeDevice& device;
  std::shared_ptr<const PlanData> plan;
  FakeHostRoots host;
  std::shared_ptr<const cuda::DeviceEngine> engine;
  std::vector<cuda::DeviceSettings> settings;
  std::vector<RootTask> tasks;  // by block
  std::vector<int64_t> steps;   // by block, or by group if a test calls Start() with steps_are_by_block=false
  std::unique_ptr<HostRoots> roots;
};

}  // namespace shampoo
