// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests DeviceStep, the host's part of a step on a device. The device is a FakeDevice (fake_device.h), which records
// the steps that it receives.
#include "core/comm/agreement.h"
#include "core/step/device_replicas.h"
#include "core/step/device_roots.h"
#include "core/step/device_shards.h"
#include "core/step/device_step.h"
#include "tests/core/comm_test_util.h"
#include "tests/core/fake_device.h"
#include "tests/core/log_capture.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"
#include "tests/core/step_ranks.h"

namespace shampoo {
namespace {

using cuda::RankDifference;
using cuda::Rejection;
using Ints = std::vector<int64_t>;

const StepFixture::Setup kOneMatrix = {.keys = {}, .params = StepFixture::Describe({{2, 3}})};

// An optimizer on a fake device.
struct OnDevice {
  // `comm` is the communicator of the replicas, and `shard_comm` is the communicator of the shards. nullptr: the
  // optimizer has no such communicator. The constructor sets the keys and the placement of the setup.
  explicit OnDevice(const OptionKeys& keys = {}, std::shared_ptr<Communicator> comm = nullptr,
                    std::shared_ptr<Communicator> shard_comm = nullptr, StepFixture::Setup setup = kOneMatrix)
      : device(FakeDevice::Reset()) {
    setup.keys = "use_merge_dims=false refresh_growth=0" + keys;
    setup.placement.device = DeviceType::kCuda;
    if (comm != nullptr) setup.placement.replica_world = comm->world();
    if (shard_comm != nullptr) setup.placement.shard_world = shard_comm->world();
    plan = StepFixture::MakePlan(setup);
    std::unique_ptr<cuda::DeviceEngine> created;
    cuda::DeviceEngine::Desc desc;
    desc.shards_agree = shard_comm != nullptr;
    desc.shards_through_host = shard_comm != nullptr && !shard_comm->takes_device_memory();
    desc.replicas_through_host = comm != nullptr && !comm->takes_device_memory();
    StepFixture::Ok(cuda::DeviceEngine::Create(plan, desc, &created));
    engine = std::move(created);
    auto owned = std::make_unique<cuda::DeviceStateMemory>(*plan, engine, nullptr, nullptr);
    memory = owned.get();
    state = std::make_unique<OptimizerState>(*plan, std::move(owned), sizeof(double));
    buffers = std::make_unique<BoundBuffers>(*plan);
    history = std::make_unique<StepHistory>(*plan);
    StepFixture::Ok(buffers->Bind(0, std::vector<Buffers>(plan->params.size())));
    BindGradient(gradient);
    std::vector<std::unique_ptr<DeviceRanks>> ranks;
    if (shard_comm != nullptr) {
      const int32_t id = shard_comm->TakeOptimizerId();
      ranks.push_back(std::make_unique<DeviceShards>(inputs(), shard_comm, id, engine.get()));
    }
    if (comm != nullptr) {
      ranks.push_back(std::make_unique<DeviceReplicas>(inputs(), comm, comm->TakeOptimizerId(), engine.get()));
    }
    std::unique_ptr<DevicePeers> peers = std::make_unique<SingleDevice>();
    if (!ranks.empty()) StepFixture::Ok(SeveralDevices::Create(std::move(ranks), *engine, memory, &peers));
    step = std::make_unique<DeviceStep>(inputs(), engine, memory, std::move(peers),
                                        std::make_unique<DeviceAsyncRoots>(engine));
    state->Observe(step.get());
    StepFixture::Ok(state->Initialize());
  }

  StepInputs inputs() { return {*plan, *state, *buffers, *history}; }
  Status Step() { return step->Step({}, nullptr); }
  Status StepWithMistake() { return step->Step(Invalid("a caller's mistake"), nullptr); }
  // Makes a step, and checks that the host expects `number` as the number of this step.
  void StepAs(int64_t number) {
    CAPTURE(number);
    CheckOk(Step());
    CHECK(last().expected_step == Ints{number});
  }
  void CaptureAs(int64_t number) {
    CAPTURE(number);
    CheckOk(Capture());
    CHECK(last().expected_step == Ints{number});
  }
  void StepAndFinish() {
    CheckOk(Step());
    CheckOk(state->FinishSteps(nullptr));
  }
  Status Capture() {
    device.captures = true;
    Status status = Step();
    device.captures = false;
    return status;
  }
  // Waits until all steps are done, and returns the error of the first step that was rejected.
  Status Report() {
    int64_t failed_call = 0;
    return step->ReportSteps(true, &failed_call);
  }
  // Binds the buffers of the first parameter, with `grad` as its gradient.
  void BindGradient(const float* grad) {
    const Buffers bound{param, grad, param, nullptr};
    StepFixture::Ok(buffers->Bind(0, {&bound, 1}));
    if (step != nullptr) step->OnBindBuffers();
  }
  void RejectNextGradient() {
    device.rejection = {Rejection::kGradientNotFinite, std::numeric_limits<double>::infinity(), {}};
  }
  // Makes the device reject the next step or export because of a difference between ranks.
  void RejectNext(RankDifference difference, bool among_shards = false) {
    device.rejection = {Rejection::kOtherRank, 0, difference, among_shards};
  }
  // Makes a step that the device rejects because of a difference between ranks. Returns the error of the step.
  Status ErrorOfStep(RankDifference difference, bool among_shards = false) {
    RejectNext(difference, among_shards);
    CheckOk(Step());
    return Report();
  }
  Status ExportTo(void* address, double blend = 1, Status caller_status = {}) {
    addresses[0] = address;
    return step->Export(std::move(caller_status), blend, addresses);
  }
  Status Export(double blend = 1, Status caller_status = {}) {
    return ExportTo(weights, blend, std::move(caller_status));
  }
  // Returns the step that was enqueued last.
  const FakeDevice::Step& last() const { return device.steps.back(); }
  float* StateAt(const StateSlot& slot) const { return reinterpret_cast<float*>(state->out() + slot.offset); }

  FakeDevice& device;
  std::shared_ptr<const PlanData> plan;
  std::shared_ptr<const cuda::DeviceEngine> engine;
  cuda::DeviceStateMemory* memory;
  std::unique_ptr<OptimizerState> state;
  std::unique_ptr<BoundBuffers> buffers;
  std::unique_ptr<StepHistory> history;
  std::unique_ptr<DeviceStep> step;
  float param[6] = {}, gradient[6] = {}, weights[6] = {};
  void* addresses[1] = {};
};

TEST_CASE("each step on a device is enqueued with its number and with the root tasks that are due") {
  OnDevice one("precondition_frequency=2");
  for (int64_t number = 1; number <= 4; ++number) {
    CheckOk(one.Step());
    const FakeDevice::Step& step = one.last();
    CHECK(step.expected_step == Ints{number});
    CHECK(step.tasks[0] == (number % 2 == 0 ? RootTask::kCompute : RootTask::kNone));
    CHECK(step.buffers_changed == (number == 1));
  }
  CHECK(one.history->counts().steps == 3);  // the last step is pending
  CheckOk(one.state->FinishSteps(nullptr));
  CHECK(one.history->counts().steps == 4);
  one.step->OnBindBuffers();
  CheckOk(one.Step());
  CHECK(one.last().buffers_changed);
}

TEST_CASE("step counters that the caller has written between steps are read before the next step") {
  OnDevice one;
  one.StepAndFinish();
  CheckOk(one.state->WriteSteps(0, 41));
  one.StepAs(42);
  CallerArena other(one.plan->state_bytes());
  reinterpret_cast<int64_t*>(other.data())[0] = 6;
  CheckOk(one.state->Bind(other.data(), other.data()));
  one.StepAs(7);
}

TEST_CASE(
    "with status_lag=0 a rejected step returns its own error, and with status_lag=1 the next step returns the error") {
  for (const char* const lag : {"0", "1"}) {
    OnDevice one(Cat("status_lag=", lag));
    one.RejectNextGradient();
    Status status = one.Step();
    if (std::string(lag) == "1") {
      CheckOk(status);
      status = one.Step();
      CheckError(status, Code::kNumeric, "the previous step was rejected, and this one has changed nothing");
      CHECK(one.device.steps.size() == 1);
    }
    CheckError(status, Code::kNumeric, "the gradient of parameter \"p0\" has an infinity");
    one.StepAs(1);  // the rejected step does not count
  }
}

TEST_CASE("ReportSteps returns the error of a rejected step once, with the number of the call that made the step") {
  OnDevice one;
  CheckOk(one.Step());
  one.RejectNextGradient();
  CheckOk(one.Step());
  int64_t failed_call = -1;
  CheckError(one.step->ReportSteps(true, &failed_call), Code::kNumeric, "a step was rejected: the gradient");
  CHECK(failed_call == 2);
  CheckOk(one.step->ReportSteps(true, &failed_call));
  CHECK(failed_call == 0);
}

TEST_CASE("replacing the state discards the error of a rejected step") {
  OnDevice one;
  one.RejectNextGradient();
  one.StepAndFinish();
  one.state->MarkReplaced();
  CheckOk(one.Step());
}

TEST_CASE("a step with an invalid argument or an invalid state is not enqueued") {
  OnDevice one;
  CheckError(one.StepWithMistake(), Code::kInvalid, "a caller's mistake");
  one.state->MarkUnusable("the load failed");
  CheckError(one.Step(), Code::kState, "the load failed");
  one.state->MarkReplaced();
  CheckOk(one.state->WriteSteps(0, -2));
  CheckError(one.Step(), Code::kState, "the state \"group.0/step\" is -2");
  CHECK(one.device.steps.empty());
  CheckOk(one.state->WriteSteps(0, 3));
  one.device.fails = "no memory on the device";
  CheckError(one.Step(), Code::kDevice, "no memory on the device");
  one.device.fails.clear();
  one.StepAs(4);
}

TEST_CASE("a step can be captured unless roots are due or the number of the step is unknown") {
  OnDevice one("precondition_frequency=3");
  CheckOk(one.Step());
  one.CaptureAs(2);
  CHECK(one.last().captured);
  reinterpret_cast<int64_t*>(one.state->out())[0] = 7;  // as if the captured step had been replayed
  one.StepAs(8);
  CheckError(one.Capture(), Code::kState, "inverse roots of group 0 are due at step 9");
  CheckOk(one.state->FinishSteps(nullptr));
  CheckOk(one.state->WriteSteps(0, 0));
  CheckError(one.Capture(), Code::kState, "the number of steps in state_in is not known");
  CheckOk(one.Report());  // reads the number of steps
  one.CaptureAs(1);
}

TEST_CASE("an update that a device skipped is counted, and the next step reports it as an error") {
  OnDevice one;
  const LogCapture log;
  CheckOk(one.Step());
  one.device.report.nonfinite_blocks = one.device.report.skipped_updates = 1;
  CheckError(one.Step(), Code::kNumeric, "the direction of block p0/0 was not finite");
  CHECK(one.history->counts().nonfinite_blocks == 1);
  CHECK(log.messages().size() == 1);
  CheckOk(one.Step());
}

// With these keys, step 4 computes roots, and step 8 takes a snapshot, whose roots are used from step 10 on.
const OptionKeys kAsync = "precondition_frequency=4 root_async=2";

void TakeSnapshot(OnDevice* one) {
  for (int step = 1; step <= 8; ++step) CheckOk(one->Step());
  REQUIRE(one->last().tasks[0] == RootTask::kTakeSnapshot);
}

// Makes steps 9 and 10. If `are_used`, checks that step 10 adopts the roots whose computation started at the snapshot.
// Otherwise, checks that step 10 computes the roots from the snapshot.
void CheckRootsAfterSnapshot(OnDevice* one, bool are_used) {
  CheckOk(one->Step());
  one->StepAs(10);
  CHECK(one->last().tasks[0] == (are_used ? RootTask::kAdoptDeviceRoots : RootTask::kFromSnapshot));
}

TEST_CASE("if async roots fail, the next step that is not captured returns the error, and the roots are not used") {
  for (const bool fails : {false, true}) {
    CAPTURE(fails);
    OnDevice one(kAsync);
    TakeSnapshot(&one);
    if (fails) one.device.root_error = "no memory for the roots";
    CheckOk(one.Capture());
    CHECK(one.device.steps.size() == 9);
    if (fails) CheckError(one.Step(), Code::kDevice, "no memory for the roots");
    CHECK(one.device.steps.size() == 9);
    CheckRootsAfterSnapshot(&one, !fails);
  }
}

// An optimizer whose device reports that it could not compute the root of the factor matrix diag(4, 16).
struct FailedRoot : OnDevice {
  explicit FailedRoot(RootFailure failure)
      : OnDevice("precondition_frequency=1 use_bias_correction=false root_relative_epsilon=0 epsilon=1e-30") {
    float* const factor = StateAt(plan->blocks[0].factor[0]);
    factor[0] = 4;
    factor[3] = 16;
    device.roots[0].ticket = 1;
    device.roots[0].failure = failure;
  }
};

TEST_CASE(
    "a root whose eigenproblem failed is computed on the device again, first outside of its batch, then by Newton "
    "iteration") {
  for (const int successful : {1, 2}) {
    FailedRoot one(RootFailure::kSolver);
    one.device.successful_retry = successful;
    const LogCapture log;
    one.StepAndFinish();
    CHECK(one.StateAt(one.plan->blocks[0].inverse[0])[0] == 0.125F);  // the successful retry of the fake writes 0.125
    REQUIRE(one.device.retries.size() == static_cast<size_t>(successful));
    CHECK(one.device.retries[0] == cuda::RetryMethod::kSingle);
    CHECK(one.device.retries.back() == (successful == 1 ? cuda::RetryMethod::kSingle : cuda::RetryMethod::kNewton));
    const RootOutcome& outcome = one.history->roots().ReportsOf(0)[0].outcome;
    CHECK(outcome.ok());
    CHECK(outcome.rung == (successful == 1 ? Rung::kDeviceEigen : Rung::kDeviceNewton));
    CHECK(outcome.first_failure == RootFailure::kSolver);
    CHECK(outcome.rungs_used == successful);
  }
}

TEST_CASE("a root that does not fit its dtype is not computed on the device again") {
  FailedRoot one(RootFailure::kOutOfRange);
  one.StepAndFinish();
  CHECK(one.device.retries.empty());
}

TEST_CASE("a root that the device could not compute is computed by the host") {
  FailedRoot one(RootFailure::kNotConverged);
  const LogCapture log;
  one.StepAndFinish();
  const float* const inverse = one.StateAt(one.plan->blocks[0].inverse[0]);
  CHECK(inverse[0] == doctest::Approx(0.5));
  CHECK(inverse[3] == doctest::Approx(0.25));
  const RootOutcome& outcome = one.history->roots().ReportsOf(0)[0].outcome;
  CHECK(outcome.ok());
  CHECK(outcome.rung == Rung::kFloat64);
  CHECK(one.device.retries.size() == 2);
  CHECK(log.messages().size() == 1);
}

TEST_CASE("DeviceStateMemory::Map copies device memory, and CheckReadable fails while the stream is captured") {
  OnDevice one;
  std::vector<char> copy;
  char* mapped = nullptr;
  one.state->out()[3] = 42;
  CheckOk(one.memory->Map(one.state->out(), 8, &copy, &mapped));
  CHECK(mapped == copy.data());
  CHECK(copy[3] == 42);
  CHECK(one.memory->allocated_arena());
  int stream = 0;
  one.memory->UseStream(&stream);
  CHECK(one.memory->stream() == &stream);
  CheckOk(one.memory->CheckStream(&stream));
  CheckOk(one.memory->CheckBuffer("dst", DeviceType::kCuda));
  CheckError(one.memory->CheckBuffer("dst", static_cast<DeviceType>(7)), Code::kUnsupported,
             "dst is 7: expected SHAMPOO_CPU (1) or SHAMPOO_CUDA (2)");
  CheckOk(one.memory->CheckReadable("the state"));
  one.device.captures = true;
  CheckError(one.memory->CheckReadable("the state"), Code::kState, "the state cannot be read while the stream");
  CHECK(one.memory->MakeStaging(&stream)->stream() == &stream);
}

constexpr bool kTakesDeviceMemory = true;

// Rank 0 of two ranks. The other rank sends copies of the data of rank 0.
struct RankOfTwo {
  explicit RankOfTwo(bool takes_device_memory = kTakesDeviceMemory) : comm(2, 0, takes_device_memory) {}

  MirrorComm comm;
};

// Rank 0 of two replicas on a fake device.
struct DeviceReplica : RankOfTwo, OnDevice {
  explicit DeviceReplica(const OptionKeys& keys = {}, bool takes_device_memory = kTakesDeviceMemory)
      : RankOfTwo(takes_device_memory), OnDevice(keys, comm.shared()) {}
};

TEST_CASE("if a rank cannot make a step on a device, it enqueues a step that reports the failure to the other ranks") {
  DeviceReplica rank;
  CheckOk(rank.StepWithMistake());
  REQUIRE(rank.device.steps.size() == 1);
  CHECK(rank.device.steps[0].failure == Code::kInvalid);
  CHECK(rank.device.steps[0].expected_step == Ints{0});
}

TEST_CASE("a rank joins a step to report an error of its async roots, and does not use the roots") {
  DeviceReplica rank(kAsync);
  TakeSnapshot(&rank);
  rank.device.root_error = "no memory for the roots";
  CheckOk(rank.Capture());
  rank.RejectNext(RankDifference::kFailed);
  CheckOk(rank.Step());
  const FakeDevice::Step& joined = rank.last();
  CHECK(rank.device.steps.size() == 10);
  CHECK(joined.failure == Code::kDevice);
  CHECK(joined.expected_step == Ints{0});
  CHECK(joined.tasks[0] == RootTask::kNone);
  CheckError(rank.Report(), Code::kDevice, "no memory for the roots");
  CheckRootsAfterSnapshot(&rank, false);
}

TEST_CASE("a rank that cannot make a step still passes the currently bound scalars to the device") {
  DeviceReplica rank;
  HyperParameters& hyper_parameters = rank.state->hyper_parameters();
  const float rates[] = {0.5F, 0.25F};
  for (const float* const rate : {&rates[0], &rates[1], static_cast<const float*>(nullptr)}) {
    CheckOk(hyper_parameters.Bind(0, "lr", static_cast<int>(Dtype::kF32), rate));
    CheckOk(rank.step->Step(rate == &rates[0] ? Status() : Invalid("a caller's mistake"), nullptr));
    const FakeDevice::Step& step = rank.last();
    CHECK(step.failure == (rate == &rates[0] ? Code::kOk : Code::kInvalid));
    CHECK(step.bound_lr == std::vector<const void*>{rate});
  }
}

TEST_CASE("if devices find a difference between ranks, the error names the difference and a rank") {
  struct Case {
    RankDifference difference;
    Code code;
    const char* says;
  };
  for (const Case& one :
       {Case{RankDifference::kPlace, Code::kComm, "rank 1 and rank 0 are at different exchanges"},
        Case{RankDifference::kStep, Code::kState, "rank 1 is at step 7 and rank 0 at step 0"},
        Case{RankDifference::kScalars, Code::kInvalid, "rank 1 has a different learning rate"},
        Case{RankDifference::kInputs, Code::kNumeric,
             "the blocks with gradients that are too large or not finite differ between rank 1 and rank 0"},
        Case{RankDifference::kFailed, Code::kComm, ", but then sent no error; expected an error"}}) {
    DeviceReplica rank;
    if (one.difference == RankDifference::kStep) rank.comm.PutFrom(1, 0, int64_t{7});
    CheckError(rank.ErrorOfStep(one.difference), one.code, one.says);
  }
}

// Ranks do not return the error of an earlier step while a step is captured (DevicePeers::CanReturnEarlierErrors).
TEST_CASE("ReportSteps returns the error of a step that the ranks rejected, even if a later step was captured") {
  const auto capture_and_report = [](DeviceReplica* rank) {
    CheckOk(rank->Capture());
    return rank->Report();
  };
  DeviceReplica failing;
  failing.RejectNext(RankDifference::kFailed);
  CheckOk(failing.StepWithMistake());
  CheckError(capture_and_report(&failing), Code::kInvalid, "a caller's mistake");

  DeviceReplica without_gradient;
  without_gradient.comm.PutFrom(1, 0, int64_t{1});
  without_gradient.BindGradient(nullptr);
  without_gradient.RejectNext(RankDifference::kInputs);
  CheckOk(without_gradient.Step());
  without_gradient.BindGradient(without_gradient.gradient);
  CheckError(capture_and_report(&without_gradient), Code::kInvalid,
             "rank 1 has a gradient for parameter \"p0\" and rank 0 has no gradient");
}

// After a capture, a replay may have been rejected. The other ranks may then return the error of the replay from the
// next call, instead of joining the next step.
TEST_CASE(
    "if a rank cannot read its step counters, the step reports this, but after a capture the rank aborts the "
    "communicator") {
  for (const bool captures : {false, true}) {
    CAPTURE(captures);
    DeviceReplica rank;
    if (captures) CheckOk(rank.Capture());
    rank.step->OnWrite(true);
    rank.device.download_error = "no counters";
    const size_t steps = rank.device.steps.size();
    const Status status = rank.Step();
    CHECK(rank.device.steps.size() == steps + (captures ? 0 : 1));
    CHECK(rank.comm.aborts == (captures ? 1 : 0));
    CheckOkIf(!captures, status, Code::kDevice, "no counters");
    if (!captures) CHECK(rank.last().failure == Code::kDevice);
  }
}

// It is possible that the other ranks do not capture their streams. They may then already be waiting for this rank in a
// collective, so the step aborts the communicator.
TEST_CASE("during a capture by another thread, a step fails and aborts the communicator, but a report only fails") {
  DeviceReplica rank;
  CheckOk(rank.Step());
  rank.device.capture_error = "a capture does not allow this call";
  CheckError(rank.Report(), Code::kState, "a capture does not allow this call");
  CHECK(rank.comm.aborts == 0);
  const LogCapture log(LogLevel::kError);
  CheckError(rank.Step(), Code::kState, "a capture does not allow this call");
  CHECK(rank.comm.aborts == 1);
  CHECK(log.messages() ==
        std::vector<std::string>{"rank 0 aborts the communicator: a capture does not allow this call"});
}

TEST_CASE("if a collective fails while a step is enqueued, this step and all later steps and reports fail") {
  DeviceReplica rank;
  CheckOk(rank.Step());
  CHECK(rank.comm.calls == 1);
  rank.comm.error = 5;
  CheckError(rank.Step(), Code::kComm, "rank 0: all_gather of the communicator returned 5");
  CheckError(rank.Step(), Code::kComm, "a collective or a CUDA call failed before");
  CheckError(rank.Report(), Code::kComm, "a collective or a CUDA call failed before");
}

TEST_CASE(
    "if a communicator takes host memory, it exchanges the device's data without a stream, and a captured step fails") {
  int stream = 0;
  for (const bool takes_device_memory : {true, false}) {
    DeviceReplica rank({}, takes_device_memory);
    CheckOk(rank.step->Step({}, &stream));
    CHECK(rank.comm.calls == 1);
    CHECK(rank.comm.last_stream == (takes_device_memory ? &stream : nullptr));
    CHECK(rank.device.exchanged() == std::vector<char>(128, FakeDevice::kSent));
    CheckOkIf(takes_device_memory, rank.Capture(), Code::kState,
              "the stream is captured, and replica_comm takes host memory");
    if (takes_device_memory) continue;
    CHECK(rank.device.steps.size() == 1);  // nothing was enqueued
    CHECK(rank.comm.calls == 1);
    CheckOk(rank.Step());
    CHECK(rank.device.steps.size() == 2);
  }
}

// Rank 0 of two shard ranks on a fake device. Both ranks send the same data. By default, each rank holds the whole
// parameter.
struct DeviceShard : RankOfTwo, OnDevice {
  explicit DeviceShard(std::shared_ptr<Communicator> replicas = nullptr, const OptionKeys& keys = {},
                       const StepFixture::Setup& setup = kOneMatrix)
      : OnDevice(keys, std::move(replicas), comm.shared(), setup) {
    comm.get()->SetRankName("shard rank");
    device.counted_steps.resize(plan->groups.size());
  }
};

constexpr bool kAmongShards = true;

TEST_CASE(
    "shard ranks read all step counters from their devices, even those of groups that are active only on other ranks") {
  DeviceShard rank;
  rank.device.counted_steps = {5};
  CheckOk(rank.Step());
  CheckOk(rank.Step());
  CHECK(rank.device.steps[1].expected_step == Ints{6});
  CHECK(rank.comm.calls == 2);  // one exchange in each step
  CHECK(rank.device.steps[0].shard_place == rank.device.steps[1].shard_place);
}

// Returns a setup in which two shard ranks gather matrices. Shard rank 0 holds all elements of matrix p if is_held[p]
// is true, otherwise no element. If `second_group` has keys, the last matrix is in a second group with these keys.
StepFixture::Setup GatheredMatrices(const std::vector<bool>& is_held, const OptionKeys& second_group = {}) {
  StepFixture::Setup setup{.keys = {}, .params = {}};
  if (!second_group.empty()) setup.more_groups = {second_group};
  for (size_t p = 0; p < is_held.size(); ++p) {
    ParamDesc own = StepFixture::Describe({{2, 3}})[0];
    own.name = Cat("p", p);
    own.group = !second_group.empty() && p + 1 == is_held.size() ? 1 : 0;
    own.form = ShardForm::kFlat;
    ParamDesc other = own;
    (is_held[p] ? own : other).flat_count = own.shape.Product();
    setup.params.push_back(own);
    setup.params_of_shard_1.push_back(other);
  }
  return setup;
}

TEST_CASE("a shard rank cannot capture a step before the rank knows which groups took part in the previous step") {
  const char* const says = "group 0 had no gradient on this rank in the previous step, so only the report";
  // In the pending step, this rank has no gradient of its parameter, or holds no elements of a gathered parameter.
  for (const auto& [gathers, counts] : {std::pair{false, "false"}, {true, "false"}, {true, "true"}}) {
    CAPTURE(gathers);
    CAPTURE(std::string(counts));
    const OptionKeys keys = Cat("count_empty_steps=", counts);
    DeviceShard rank(nullptr, gathers ? kGather + keys : keys, gathers ? GatheredMatrices({false}) : kOneMatrix);
    rank.BindGradient(nullptr);
    rank.device.counted_steps = {5};
    CheckOk(rank.Step());
    rank.BindGradient(rank.gradient);
    CheckError(rank.Capture(), Code::kState, says);
    CHECK(rank.device.steps.size() == 1);
    CheckOk(rank.Report());
    rank.CaptureAs(6);
  }
}

TEST_CASE(
    "if roots of gathered parameters are due, a capture fails only if their group had a gradient in the previous "
    "step") {
  struct Case {
    const char* counts;  // count_empty_steps of the group
    int64_t counted;     // the result of cuda::Table::counted_steps for the group; see core/backend/cuda/interface.h
    Ints captured;       // by group, the number of the captured step; empty: the capture fails
    const char* says;
  };
  for (const Case& one : {Case{"false", 0, {2, 1}, ""},
                          {"false", 1, {}, "inverse roots of group 1 are due at step 2"},
                          {"true", -4, {2, 5}, ""},
                          {"true", 4, {}, "inverse roots of group 1 are due at step 5"}}) {
    CAPTURE(std::string(one.counts));
    CAPTURE(one.counted);
    const OptionKeys with_roots = Cat("precondition_frequency=1 count_empty_steps=", one.counts);
    DeviceShard rank(nullptr, kGather + "precondition_frequency=100",
                     GatheredMatrices({true, false}, kGather + with_roots));
    rank.device.counted_steps = {1, one.counted};
    CheckOk(rank.Step());
    CheckOk(rank.Report());
    CheckOkIf(!one.captured.empty(), rank.Capture(), Code::kState, one.says);
    if (!one.captured.empty()) CHECK(rank.last().expected_step == one.captured);
  }
}

TEST_CASE(
    "with count_empty_steps, the host counts a step in groups without gradients even before it knows the report of the "
    "step") {
  const OptionKeys keys = "count_empty_steps=true";
  DeviceShard rank(nullptr, keys);
  rank.BindGradient(nullptr);
  rank.device.counted_steps = {-1};
  rank.StepAs(1);
  rank.CaptureAs(2);
  OnDevice one(keys);
  one.BindGradient(nullptr);
  for (const int64_t number : {1, 2, 3}) one.StepAs(number);
}

// An optimizer whose first step is pending. In this step, parameter p had a gradient if had_gradient[p] is true. After
// the step, the constructor binds gradients for all parameters.
struct AfterFirstStep : OnDevice {
  AfterFirstStep(const OptionKeys& keys, const std::vector<bool>& had_gradient)
      : OnDevice(keys, nullptr, nullptr,
                 {.keys = {},
                  .params = StepFixture::Describe(std::vector<std::vector<int64_t>>(had_gradient.size(), {2, 3}))}) {
    std::vector<Buffers> bound;
    for (const bool has : had_gradient) bound.push_back({param, has ? gradient : nullptr, param, nullptr});
    StepFixture::Ok(buffers->Bind(0, bound));
    CheckOk(Step());
    for (Buffers& one : bound) one.grad = gradient;
    StepFixture::Ok(buffers->Bind(0, bound));
  }
};

TEST_CASE(
    "while a step is pending, the host assumes that this step increments gradient_count of each block that had a "
    "gradient") {
  const OptionKeys soap = "method=soap refresh_growth=0.1 precondition_frequency=100";
  for (const char* const counts : {"false", "true"}) {
    for (const std::vector<bool>& had_gradient : {std::vector{true, true}, {true, false}, {false, false}}) {
      CAPTURE(std::string(counts));
      CAPTURE(had_gradient[0]);
      CAPTURE(had_gradient[1]);
      AfterFirstStep one(soap + Cat("count_empty_steps=", counts), had_gradient);
      // The first gradient of each block initializes its eigenbases.
      CheckOkIf(had_gradient[1], one.Capture(), Code::kState, "eigenbases of group 0 are due");
    }
  }
}

TEST_CASE(
    "while a step is pending, a capture does not rely on the reported step counts, which do not include that step") {
  for (const bool has_gradient : {true, false}) {
    for (const int64_t reported : {0, -1, 1}) {
      CAPTURE(has_gradient);
      CAPTURE(reported);
      const OptionKeys keys = "precondition_frequency=1 count_empty_steps=true";
      DeviceShard rank(nullptr, kGather + keys, GatheredMatrices({true, false}));
      if (!has_gradient) rank.BindGradient(nullptr);
      CheckOk(rank.Step());
      rank.device.counted_steps = {reported};
      rank.BindGradient(nullptr);
      CheckError(rank.Capture(), Code::kState,
                 has_gradient ? "inverse roots of group 0 are due at step 2" : "only the report of that step says");
    }
  }
}

TEST_CASE("if the devices of shard ranks reject a step, the hosts determine the error") {
  struct Case {
    RankDifference difference;
    Code code;
    const char* says;
    std::function<void(char* segment)> change;  // changes the segment of the other rank
  };
  const Case cases[] = {
      {RankDifference::kPlace, Code::kComm, "shard rank 1 and shard rank 0 are at different exchanges", [](char*) {}},
      {RankDifference::kStep, Code::kState, "shard rank 1 is at step 7 of group 0, and shard rank 0 is at step 1",
       [](char* segment) { Put(segment, kStepInSegment, int64_t{7}); }},
      {RankDifference::kInputs, Code::kInvalid,
       "shard rank 0 has a gradient for parameter \"p0\" and shard rank 1 has none",
       [](char* segment) { Put(segment, kGradientsInSegment, static_cast<unsigned char>(kNoGradient)); }},
      // In the next two cases, only the devices know that the learning rates differ, as if the rates were bound in
      // device memory.
      {RankDifference::kScalars, Code::kInvalid, "shard rank 1 has a different learning rate", [](char*) {}},
      {RankDifference::kScalars, Code::kInvalid, "shard rank 1 has a different learning rate",
       [](char* segment) { Put(segment, kGradientsInSegment, static_cast<unsigned char>(kNoGradient)); }},
      // A CUDA call of the other rank has failed since the devices compared the learning rates.
      {RankDifference::kScalars, Code::kDevice, "shard rank 1 failed",
       [](char* segment) { Put(segment, 0, static_cast<int32_t>(Code::kDevice)); }},
      {RankDifference::kFailed, Code::kComm, ", but then sent no error; expected an error", [](char*) {}}};
  for (const Case& one : cases) {
    CAPTURE(std::string(one.says));
    DeviceShard rank;
    rank.comm.change = [&](int64_t call, int from, char* segment, size_t) {
      if (from == 1 && call == 2) one.change(segment);
    };
    CheckError(rank.ErrorOfStep(one.difference, kAmongShards), one.code, one.says);
    CHECK((rank.comm.aborts > 0) == (one.code == Code::kComm));
  }
}

TEST_CASE("the error of one shard rank is returned with the number of this rank") {
  DeviceShard rank;
  rank.comm.change = [](int64_t call, int from, char* segment, size_t bytes) {
    if (call == 2 && from == 1) std::memset(segment, 0, bytes);  // the other rank has no error
  };
  rank.device.rejection = {Rejection::kGradientNotFinite, std::numeric_limits<double>::infinity(),
                           RankDifference::kFailed, true};
  CheckOk(rank.Step());
  CheckError(rank.Report(), Code::kNumeric, "shard rank 0: the gradient of");
}

TEST_CASE("if a collective among shards or among replicas fails, both communicators are aborted") {
  for (const bool of_shards : {true, false}) {
    CAPTURE(of_shards);
    MirrorComm replicas;
    DeviceShard rank(replicas.shared());
    CheckOk(rank.Step());
    (of_shards ? rank.comm : replicas).error = 5;
    CheckError(rank.Step(), Code::kComm, "all_gather of the communicator returned 5");
    CHECK(rank.comm.aborts == 1);
    CHECK(replicas.aborts == 1);
    CheckError(rank.Step(), Code::kComm, "a collective or a CUDA call failed before");
  }
}

TEST_CASE(
    "if a CUDA call of a step fails before the ranks agree to make the step, the step is enqueued again with the "
    "error") {
  struct Case {
    int fails_at;  // the value of FakeDevice::fails_at
    bool is_enqueued_again;
  };
  for (const Case& one : {Case{0, true}, Case{1, true}, Case{2, false}}) {
    CAPTURE(one.fails_at);
    MirrorComm replicas(2, 0, kTakesDeviceMemory);
    DeviceShard rank(replicas.shared());
    rank.device.fails_at = one.fails_at;
    const LogCapture log(LogLevel::kError);
    const Status status = rank.Step();
    REQUIRE(rank.device.steps.size() == (one.is_enqueued_again ? 2 : 1));
    CHECK(rank.last().failure == (one.is_enqueued_again ? Code::kDevice : Code::kOk));
    CheckOkIf(one.is_enqueued_again, status, Code::kDevice, "a CUDA call failed");
    CHECK(rank.last().again == one.is_enqueued_again);
    CHECK(log.messages().size() == (one.is_enqueued_again ? 0 : 2));
    for (const MirrorComm* comm : {&rank.comm, &replicas}) {
      CHECK(comm->calls == 1);
      CHECK(comm->aborts == (one.is_enqueued_again ? 0 : 1));
    }
  }
}

TEST_CASE("async roots are computed again if the caller may have written the state after the snapshot of the roots") {
  OnDevice one(kAsync);
  TakeSnapshot(&one);
  CheckOk(one.state->Bind(nullptr, nullptr));
  CheckRootsAfterSnapshot(&one, false);
}

TEST_CASE("an export reads the state that steps write, and is not enqueued during a capture") {
  OnDevice one("weight_ema=0.5");
  CheckError(one.Export(0.25, Invalid("a caller's mistake")), Code::kInvalid, "a caller's mistake");
  one.device.captures = true;
  CheckError(one.Export(0.25), Code::kState, "the state of the averages cannot be read");
  one.device.captures = false;
  CheckError(one.ExportTo(one.param), Code::kInvalid, "weights[0] overlaps the parameter \"p0\"");
  CHECK(one.device.exports.empty());
  CheckOk(one.Export(0.25));
  REQUIRE(one.device.exports.size() == 1);
  CHECK(one.device.exports[0].state == one.state->out());
  CHECK(one.device.exports[0].weights == one.addresses);
  CHECK(one.device.exports[0].blend == 0.25);
}

const OptionKeys kExportsEma = "weight_ema=0.5";

TEST_CASE(
    "an export of several ranks is enqueued like a step, is not counted as a step, and ends before the call returns") {
  for (const bool gathers : {false, true}) {
    CAPTURE(gathers);
    MirrorComm replicas(2, 0, kTakesDeviceMemory);
    DeviceShard one(gathers ? nullptr : replicas.shared(), gathers ? kGather + kExportsEma : kExportsEma,
                    gathers ? GatheredMatrices({true}) : kOneMatrix);
    one.device.counted_steps = {1};
    CheckOk(one.Step());
    CheckOk(one.Export(0.25));
    REQUIRE(one.device.steps.size() == 2);
    CHECK(one.device.exports.empty());
    const FakeDevice::Step& enqueued = one.device.steps[1];
    CHECK(enqueued.exports);
    CHECK(enqueued.blend == 0.25);
    CHECK(enqueued.expected_step == Ints{0});
    CHECK(enqueued.failure == Code::kOk);
    CHECK(enqueued.buffers[0].param == one.param);
    CHECK(enqueued.buffers[0].grad == nullptr);
    CHECK(enqueued.buffers[0].out == one.weights);
    CHECK(one.device.awaited == -1);
    CHECK(one.history->counts().steps == 1);
    CheckOk(one.Step());
    CHECK_FALSE(one.device.steps[2].exports);
    CHECK(one.device.steps[2].expected_step == Ints{2});
    CHECK(one.device.steps[2].buffers[0].grad == one.gradient);
    CHECK(one.device.last_ticket == 2);
  }
}

TEST_CASE(
    "if an export has a bad argument, the rank enqueues an export without outputs, which reports the error to all "
    "ranks") {
  DeviceReplica rank(kExportsEma);
  CheckOk(rank.Step());
  rank.RejectNext(RankDifference::kFailed);
  CheckError(rank.Export(0.25, Invalid("a caller's mistake")), Code::kInvalid, "a caller's mistake");
  CHECK(rank.last().failure == Code::kInvalid);
  CHECK(rank.last().buffers[0].out == nullptr);
  rank.RejectNext(RankDifference::kFailed);
  CheckError(rank.ExportTo(rank.param), Code::kInvalid, "weights[0] overlaps the parameter \"p0\"");
  CheckOk(rank.Export(0.25));
  CheckOk(rank.Step());
  CheckOk(rank.Report());
}

TEST_CASE("an export after a rejected step returns the error of this step, and is not enqueued") {
  DeviceReplica rank(kExportsEma);
  rank.device.rejection = {Rejection::kCounter, -5, RankDifference::kFailed};
  CheckOk(rank.Step());
  CheckError(rank.Export(), Code::kState, "an earlier step was rejected, and nothing was exported: rank 0: ");
  CHECK(rank.device.steps.size() == 1);
  CheckOk(rank.Export());
}

TEST_CASE(
    "if a CUDA call of an export fails before the ranks agree to make the export, the export is enqueued again with "
    "the error") {
  for (const bool is_enqueued_again : {true, false}) {
    CAPTURE(is_enqueued_again);
    MirrorComm replicas(2, 0, kTakesDeviceMemory);
    DeviceShard rank(replicas.shared(), kExportsEma);
    CheckOk(rank.Step());
    CheckOk(rank.Report());
    const LogCapture log(LogLevel::kError);
    rank.device.fails_at = is_enqueued_again ? 1 : 2;
    rank.RejectNext(RankDifference::kFailed);
    CheckError(rank.Export(), Code::kDevice, "a CUDA call failed");
    CHECK(rank.device.steps.size() == (is_enqueued_again ? 3 : 2));
    const FakeDevice::Step& last = rank.last();
    CHECK(last.exports);
    CHECK(last.again == is_enqueued_again);
    CHECK(last.failure == (is_enqueued_again ? Code::kDevice : Code::kOk));
    for (const MirrorComm* comm : {&rank.comm, &replicas}) CHECK(comm->aborts == (is_enqueued_again ? 0 : 1));
  }
}

TEST_CASE("if the devices reject an export, the error names the rank that makes a step or whose step number differs") {
  DeviceReplica rank(kExportsEma);
  CheckOk(rank.Step());
  CheckOk(rank.Report());
  // Replicas compare three values: one of the parameter, one of the group, and a ReplicaInputs::Action.
  const size_t action_at = 2 * sizeof(int64_t);
  rank.comm.change = [&](int64_t, int from, char* segment, size_t bytes) {
    if (from == 1 && bytes == 3 * sizeof(int64_t)) Put(segment, action_at, int64_t{ReplicaInputs::kSteps});
  };
  rank.RejectNext(RankDifference::kInputs);
  CheckError(rank.Export(), Code::kState, "rank 0 exports averages and rank 1 makes a step");
  // The number of the next collective, with which the devices make the export. In later collectives, the hosts
  // determine the error.
  const int64_t of_devices = rank.comm.calls + 1;
  rank.comm.change = [&](int64_t call, int from, char* segment, size_t) {
    if (from == 1 && call > of_devices) Put(segment, 0, int64_t{7});
  };
  rank.RejectNext(RankDifference::kStep);
  CheckError(rank.Export(), Code::kState, "rank 1 is at step 7 and rank 0 at step 1");

  DeviceShard shard(nullptr, kGather + kExportsEma, GatheredMatrices({true}));
  shard.comm.change = [&](int64_t, int from, char* segment, size_t bytes) {
    const bool is_agreement = bytes == static_cast<size_t>(ShardSegmentBytes(1, 1));
    if (from == 1 && is_agreement) Put(segment, offsetof(RoundHeader, flags), uint32_t{0});
  };
  shard.RejectNext(RankDifference::kInputs, kAmongShards);
  CheckError(shard.Export(), Code::kState,
             "shard rank 0 exports averages and shard rank 1 makes a step; the step has changed nothing. Call");
}

TEST_CASE("if only the replicas of one shard find an error, the ranks of the other shards return it, too") {
  const MirrorComm replicas(2, 0, kTakesDeviceMemory);
  DeviceShard rank(replicas.shared());
  rank.comm.change = [](int64_t call, int from, char* segment, size_t bytes) {
    if (from != 1) return;
    if (call == 3) Put(segment, 0, static_cast<int32_t>(Code::kNumeric));  // the second agreement of the shard ranks
    if (bytes == kTextBytes) std::strcpy(segment, "its replicas differ");
  };
  CheckError(rank.ErrorOfStep(RankDifference::kFailed), Code::kNumeric, "shard rank 1: its replicas differ");
}

}  // namespace
}  // namespace shampoo
