// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the jobs of HostRoots. In each step, every block has a RootTask, and every job is for one RootTask. The job
// computes, on the host for a device, the inverse roots of all blocks that have this task. The device is a
// FakeHostRoots, which copies matrices and records the calls that it receives.
#include <cmath>

#include "core/step/host_roots.h"
#include "tests/core/roots_on_host.h"

namespace shampoo {
namespace {

using CallsOfThread = std::vector<std::string>;

constexpr RootTask kNoTask = RootTask::kNone;
constexpr RootTask kTakesSnapshot = RootTask::kTakeSnapshot;

TEST_CASE("a rank that owns no block with async roots creates no thread for async roots") {
  for (const int rank : {0, 1}) {
    RootsOnHost one(1, {}, ReplicaPlacement(rank, 2));
    one.Create();
    CHECK((one.roots != nullptr) == one.plan->Owns(one.plan->blocks[0]));
  }
}

TEST_CASE(
    "a job computes the roots of all blocks that have the task of the job, and without such blocks, no job starts") {
  RootsOnHost one(3);
  one.tasks = {RootTask::kFromSnapshot, kTakesSnapshot, kNoTask};
  one.Create();
  int stream = 0;
  const char arena = 0;
  CheckOk(
      one.roots->Start({&one.tasks, RootTask::kFromSnapshot, &one.settings, one.steps.data(), true, &arena, &stream}));
  CheckOk(one.roots->WaitFor(one.tasks));
  CHECK(one.host.calls() == CallsOfThread{"begin 1", "fetch 0: 0.0 0.1", "wait 0", "return 0.0 0.1", "end 1"});
  REQUIRE(one.host.started.size() == 1);
  CHECK(one.host.started[0].stream == &stream);
  CHECK(one.host.started[0].arena == &arena);
  CHECK(one.host.started[0].task == RootTask::kFromSnapshot);
  CHECK(one.host.started[0].tasks == one.tasks);
  CheckOk(one.Start(RootTask::kCompute));
  CHECK(one.host.started.size() == 1);
}

TEST_CASE(
    "the bias correction of a factor matrix uses the step number of its block or, if step numbers are by group, of its "
    "group") {
  for (const bool by_block : {true, false}) {
    RootsOnHost one(2, "beta2=0.5");
    for (int64_t b = 0; b < 2; ++b) one.host.matrices[{b, 0}] = {2, 0, 0, 6};
    one.steps = {1, 2};
    one.Create();
    CheckOk(one.Start(kTakesSnapshot, by_block));
    CheckOk(one.roots->WaitFor(one.tasks));
    const std::vector<double> first = {0.5, 0, 0, 1 / std::sqrt(12)};                      // F / (1 - 1 / 2)
    const std::vector<double> second = {1 / std::sqrt(2 / 0.75), 0, 0, 1 / std::sqrt(8)};  // F / (1 - 1 / 4)
    one.CheckRoot(0, 0, first);
    one.CheckRoot(1, 0, by_block ? second : first);
  }
}

TEST_CASE("a job uses the settings and step numbers at its start, even if they change before the roots are computed") {
  RootsOnHost one(2, "beta2=0.5");
  for (int64_t b = 0; b < 2; ++b) one.host.matrices[{b, 0}] = {2, 0, 0, 2};
  one.tasks = {kTakesSnapshot, RootTask::kFromSnapshot};
  one.Create();
  one.host.Hold();
  CheckOk(one.Start());
  one.steps = {2, 2};
  one.settings[0].epsilon = 6;
  CheckOk(one.Start(RootTask::kFromSnapshot));
  one.settings[0].epsilon = 1e6;
  one.steps = {3, 3};
  one.host.Release();
  CheckOk(one.roots->WaitFor(one.tasks));
  one.CheckRoot(0, 0, {0.5, 0, 0, 0.5});
  const double second = 1 / std::sqrt(2 / 0.75 + 6);
  one.CheckRoot(1, 0, {second, 0, 0, second});
}

TEST_CASE("roots that do not fit one buffer are computed in chunks, which use the two buffers in turn") {
  RootsOnHost one(3);
  for (int64_t b = 0; b < 3; ++b) {
    const double element = std::pow(4, b);
    for (const int k : {0, 1}) one.host.matrices[{b, k}] = {element, 0, 0, k == 0 ? element : 1};
  }
  const int64_t bytes = cuda::HostRootBytes(one.plan->blocks[0], 0);
  one.host.SetBufferBytes(2 * bytes + bytes / 2);
  one.Run();
  CHECK(one.host.calls() == CallsOfThread{"begin 1", "fetch 0: 0.0 0.1", "fetch 1: 1.0 1.1", "wait 0", "return 0.0 0.1",
                                          "fetch 0: 2.0 2.1", "wait 1", "return 1.0 1.1", "wait 0", "return 2.0 2.1",
                                          "end 1"});
  for (int64_t b = 0; b < 3; ++b) {
    const double root = std::pow(2, -b);
    for (const int k : {0, 1}) one.CheckRoot(b, k, {root, 0, 0, k == 0 ? root : 1});
  }
}

TEST_CASE("for a dim without a factor matrix, the host computes no root and needs no memory") {
  RootsOnHost one(1, "skip_dim_size=2 grafting=adam", {}, 3);
  CHECK(cuda::HostRootBufferBytes(*one.plan) == cuda::HostRootBytes(one.plan->blocks[0], 0));
  one.Run();
  CHECK(one.host.calls() == CallsOfThread{"begin 1", "fetch 0: 0.0", "wait 0", "return 0.0", "end 1"});
}

TEST_CASE(
    "WaitFor waits for the job of a block only if the next task of the block takes a snapshot or uses pending roots") {
  constexpr size_t kBlocks = 100;  // enough blocks that their job does not end between Release() and WaitFor()
  for (const RootTask task : {kTakesSnapshot, RootTask::kFromSnapshot, RootTask::kAdoptDeviceRoots}) {
    RootsOnHost one(kBlocks);
    one.tasks.back() = kNoTask;
    one.Create();
    one.host.Hold();
    CheckOk(one.Start());
    std::vector<RootTask> next(kBlocks, RootTask::kCompute);
    next.back() = task;
    CheckOk(one.roots->WaitFor(next));
    CheckOk(one.roots->TakeError());
    CHECK(one.host.calls().empty());
    next.front() = task;
    one.host.Release();
    CheckOk(one.roots->WaitFor(next));
    REQUIRE(!one.host.calls().empty());
    CHECK(one.host.calls().back() == "end 1");
  }
}

TEST_CASE("if a job fails on its thread, the job is ended on the device, and only the next WaitFor returns the error") {
  for (const char* const call : {"fetch", "wait", "return", "end"}) {
    CAPTURE(std::string(call));
    RootsOnHost one(1);
    one.host.fails = {call, "end"};
    one.Create();
    CheckOk(one.Start());
    CheckError(one.roots->WaitFor(one.tasks), Code::kDevice, call);
    CHECK(one.host.calls().back() == "end 1");
    CheckOk(one.roots->WaitFor(one.tasks));
    CheckOk(one.roots->TakeError());
  }
}

TEST_CASE("a job that cannot begin makes no other calls, and TakeError returns its error") {
  RootsOnHost one(1);
  one.host.fails = {"begin"};
  one.Create();
  for (int job = 0; job < 4; ++job)
    CheckOk(one.Start());  // with root_async=2, the fourth start waits for the first job
  CheckError(one.roots->TakeError(), Code::kDevice, "begin");
  one.roots = nullptr;
  for (const std::string& call : one.host.calls()) CHECK(call.find("begin") == 0);
}

TEST_CASE("if the device cannot start a job, Start returns the error, and the thread does not run the job") {
  RootsOnHost one(1);
  one.host.fails = {"start"};
  one.Create();
  CheckError(one.Start(), Code::kDevice, "start");
  CheckOk(one.roots->WaitFor(one.tasks));
  one.host.fails.clear();
  CheckOk(one.Start());
  CheckOk(one.roots->WaitFor(one.tasks));
  CHECK(one.host.calls().front() == "begin 2");
}

// Describes the roots of a step whose tasks and settings are those of `one`.
AsyncRootSource::StepRoots StepRootsOf(RootsOnHost* one, const char* state_in, void* stream) {
  return {&one->tasks, true, &one->settings, one->steps.data(), state_in, one->steps.data(), stream};
}

TEST_CASE(
    "if the roots of a snapshot are not available, the host computes these roots before the device makes the step") {
  RootsOnHost one(2);
  one.tasks = {RootTask::kFromSnapshot, kNoTask};
  one.Create();
  const char arena = 0;
  int stream = 0;
  AsyncRootSource::StepRoots step = StepRootsOf(&one, &arena, &stream);
  step.any_task = false;
  CheckOk(one.roots->Prepare(step));
  CHECK(one.host.started.empty());
  step.any_task = true;
  CheckOk(one.roots->Prepare(step));
  CHECK(one.tasks == std::vector<RootTask>{RootTask::kAdoptDeviceRoots, kNoTask});
  REQUIRE(one.host.started.size() == 1);
  CHECK(one.host.started[0].task == RootTask::kFromSnapshot);
  CHECK(one.host.started[0].arena == &arena);
  CHECK(one.host.started[0].stream == &stream);
  one.CheckRoot(0, 1, kRootOnHost);
  RootReport report;
  report.outcome.failure = RootFailure::kSolver;
  CHECK(!one.roots->TakeHostReport(RootTask::kFromSnapshot, 1, &report));
  CHECK(!report.outcome.ok());
  CHECK(one.roots->TakeHostReport(RootTask::kAdoptDeviceRoots, 1, &report));
  CHECK(report.outcome.ok());
}

TEST_CASE("a job that StartFromStep starts uses the bias correction for the step number of the group") {
  RootsOnHost one(2, "beta2=0.5");
  for (int64_t b = 0; b < 2; ++b) one.host.matrices[{b, 0}] = {2, 0, 0, 6};
  one.steps = {2};
  one.Create();
  CheckOk(one.roots->StartFromStep(StepRootsOf(&one, nullptr, nullptr)));
  CheckOk(one.roots->WaitFor(one.tasks));
  CHECK(one.host.started[0].task == kTakesSnapshot);
  for (int64_t b = 0; b < 2; ++b) one.CheckRoot(b, 0, {1 / std::sqrt(2 / 0.75), 0, 0, 1 / std::sqrt(8)});
}

TEST_CASE("if earlier async roots failed, Prepare returns the error and leaves the tasks of the next step unchanged") {
  RootsOnHost one(1);
  one.host.fails = {"fetch"};
  one.Create();
  CheckOk(one.roots->StartFromStep(StepRootsOf(&one, nullptr, nullptr)));
  one.tasks = {RootTask::kFromSnapshot};
  CheckError(one.roots->Prepare(StepRootsOf(&one, nullptr, nullptr)), Code::kDevice, "fetch");
  CHECK(one.tasks[0] == RootTask::kFromSnapshot);
}

}  // namespace
}  // namespace shampoo
