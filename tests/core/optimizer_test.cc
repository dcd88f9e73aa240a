// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/optimizer.h"

#include "tests/core/comm_test_util.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

std::shared_ptr<const PlanData> PlanOf(const StepFixture::Keys& keys, const Placement& placement = {}) {
  return StepFixture(keys, {{2, 2}}, placement).shared_plan();
}

std::unique_ptr<Optimizer> MakeOptimizer(const StepFixture::Keys& keys) {
  std::unique_ptr<Optimizer> optimizer;
  StepFixture::Ok(Optimizer::Create(PlanOf(keys), {}, {}, &optimizer));
  return optimizer;
}

TEST_CASE("an optimizer steps the parameters that are bound") {
  const auto optimizer = MakeOptimizer(kPlainDescent);
  float param[4] = {1, 1, 1, 1};
  const float gradient[4] = {1, 2, 3, 4};
  const Buffers buffers{param, gradient, param, nullptr};
  CheckError(optimizer->strategy().Step({}, nullptr), Code::kState, "has no buffers");
  CheckOk(optimizer->Bind(0, {&buffers, 1}));
  CheckError(optimizer->Bind(1, {&buffers, 1}), Code::kInvalid, "first is 1 and count 1");
  CheckError(optimizer->buffers().CheckRange(0, 2), Code::kInvalid, "expected a range of the plan's 1 parameters");
  CheckOk(optimizer->strategy().Step({}, nullptr));
  CHECK(param[3] == -1);
  CheckOk(optimizer->Set(0, "lr", 0));
  CheckOk(optimizer->strategy().Step({}, nullptr));
  CHECK(param[3] == -1);
  CheckError(optimizer->Set(0, "no_key", 0), Code::kInvalid, "does not exist");
  int64_t failed_call = -1;
  CheckOk(optimizer->strategy().ReportSteps(true, &failed_call));
}

TEST_CASE("statistics are found by name, and the step of a group by its number") {
  const auto optimizer = MakeOptimizer(kPlainDescent);
  CheckOk(optimizer->state().WriteSteps(0, 5));
  double value = -1;
  CheckOk(optimizer->Stat("step.0", &value));
  CHECK(value == 5);
  for (const char* const name : {"steps", "skipped_steps", "seconds.check", "seconds.elementwise", "root_computed"}) {
    CheckOk(optimizer->Stat(name, &value));
    CHECK(value == 0);
  }
  for (const char* const name : {"step.1", "step.-0", "step.00", "step.", "step.0x"}) {
    CheckError(optimizer->Stat(name, &value), Code::kInvalid,
               Cat("there is no statistic \"", name, "\": expected step.G with the number G of a group, which is 0"));
  }
  CheckError(optimizer->Stat("no_such", &value), Code::kInvalid,
             "there is no statistic \"no_such\": expected steps, step.<group>, seconds.check");
  optimizer->state().MarkUnusable("the load failed");
  CheckError(optimizer->Stat("step.0", &value), Code::kState, "the load failed");
}

TEST_CASE("create rejects arguments that do not match the plan") {
  const Placement first_of_two = ReplicaPlacement(0, 2);
  Placement first_shard;
  first_shard.shard_world = 2;
  CallerArena arena(PlanOf({})->state_bytes());
  const MirrorComm three(3);
  const MirrorComm second(2, 1);

  OptimizerDesc device_desc;
  device_desc.device = DeviceType::kCuda;
  OptimizerDesc small_desc;
  small_desc.state = arena.data();
  small_desc.state_bytes = 1;
  OptimizerDesc odd_desc;
  odd_desc.state = arena.data() + 8;
  odd_desc.state_bytes = size_t{1} << 20;
  OptimizerDesc three_desc;
  three_desc.replica_comm = three.shared();
  OptimizerDesc second_desc;
  second_desc.shard_comm = second.shared();
  OptimizerDesc on_device_desc;
  on_device_desc.replica_comm = MakeDeviceComm();
  OptimizerDesc shards_on_device_desc;
  shards_on_device_desc.shard_comm = MakeDeviceComm();

  struct Case {
    Placement placement;
    const OptimizerDesc& desc;
    Code code;
    const char* says;
  };
  const OptimizerDesc plain;
  for (const Case& one :
       {Case{{},
             device_desc,
             Code::kInvalid,
             "desc.device_type is SHAMPOO_CUDA (2), and the device type of the plan is SHAMPOO_CPU"},
        Case{{}, small_desc, Code::kInvalid, "state_bytes is 1: expected at least "},
        Case{{}, odd_desc, Code::kInvalid, "state is not aligned: expected an address that is a multiple of 64"},
        Case{first_of_two, plain, Code::kInvalid, "desc.replica_comm is NULL and the plan's replica_world is 2"},
        Case{first_of_two, three_desc, Code::kInvalid,
             "desc.replica_comm is rank 0 of 3, and the plan's replica_rank is 0"},
        Case{first_shard, second_desc, Code::kInvalid,
             "desc.shard_comm is rank 1 of 2, and the plan's shard_rank is 0"},
        Case{{}, on_device_desc, Code::kUnsupported, "desc.replica_comm takes memory of a GPU"},
        Case{{}, shards_on_device_desc, Code::kUnsupported, "desc.shard_comm takes memory of a GPU"}}) {
    CAPTURE(one.says);
    std::unique_ptr<Optimizer> optimizer;
    CheckError(Optimizer::Create(PlanOf({}, one.placement), one.desc, {}, &optimizer), one.code, one.says);
    CHECK(optimizer == nullptr);
  }
}

TEST_CASE("shard_mode gather needs a communicator of the shards") {
  StepFixture::Setup setup{.keys = {{"shard_mode", "gather"}},
                           .params = StepFixture::Describe({{2, 2}}),
                           .more_groups = {},
                           .placement = {}};
  setup.placement.shard_world = 2;
  setup.params[0].form = ShardForm::kFlat;
  setup.params[0].flat_count = 2;
  std::unique_ptr<Optimizer> optimizer;
  CheckError(Optimizer::Create(StepFixture(setup).shared_plan(), {}, {}, &optimizer), Code::kInvalid,
             "desc.shard_comm is NULL, shard_mode is gather");
}

TEST_CASE("a wrong argument on one rank is an error on all ranks, even without a plan") {
  const MirrorComm comm;
  OptimizerDesc desc;
  desc.replica_comm = comm.shared();
  std::unique_ptr<Optimizer> optimizer;
  CheckError(Optimizer::Create(nullptr, desc, Invalid("plan is NULL"), &optimizer), Code::kInvalid, "plan is NULL");
  CHECK(comm.calls > 0);                          // the other ranks received the error
  CHECK(comm.get()->optimizer_ids_taken() == 1);  // as on the other ranks
  comm.get()->Abort();
  CheckError(Optimizer::Create(nullptr, desc, {}, &optimizer), Code::kComm,
             "a collective or a CUDA call failed before");
}

TEST_CASE("replicas with different plans cannot create an optimizer") {
  const Placement first = ReplicaPlacement(0, 2);
  MirrorComm comm;
  comm.change = [&](int64_t call, int from, char* segment, size_t bytes) {
    if (from == 1 && call > 1 && bytes == 64) Put(segment, 0, int64_t{12345} + call);
  };
  OptimizerDesc desc;
  desc.replica_comm = comm.shared();
  std::unique_ptr<Optimizer> optimizer;
  CHECK(!Optimizer::Create(PlanOf({}, first), desc, {}, &optimizer).ok());
  CHECK(optimizer == nullptr);
  const MirrorComm same;
  desc.replica_comm = same.shared();
  CheckOk(Optimizer::Create(PlanOf({}, first), desc, {}, &optimizer));
  CHECK(optimizer != nullptr);
}

TEST_CASE("the state is in the caller's memory if the caller passes it") {
  const auto plan = PlanOf(kPlainDescent);
  CallerArena arena(plan->state_bytes());
  OptimizerDesc desc;
  desc.state = arena.data();
  desc.state_bytes = static_cast<size_t>(plan->state_bytes());
  std::unique_ptr<Optimizer> optimizer;
  CheckOk(Optimizer::Create(plan, desc, {}, &optimizer));
  CHECK(optimizer->state().out() == arena.data());
}

}  // namespace
}  // namespace shampoo
