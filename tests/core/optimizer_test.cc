// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/optimizer/optimizer.h"

#include "tests/core/comm_test_util.h"
#include "tests/core/fake_device.h"
#include "tests/core/status_check.h"
#include "tests/core/stepping_ranks.h"

namespace shampoo {
namespace {

std::shared_ptr<const PlanData> PlanOf(const OptionKeys& keys, const Placement& placement = {}) {
  return StepFixture(keys, {{2, 2}}, placement).shared_plan();
}

std::unique_ptr<Optimizer> MakeOptimizer(const OptionKeys& keys) {
  std::unique_ptr<Optimizer> optimizer;
  StepFixture::Ok(Optimizer::Create(PlanOf(keys), {}, {}, &optimizer));
  return optimizer;
}

TEST_CASE("a step updates the bound parameters and fails if no buffers are bound") {
  const auto optimizer = MakeOptimizer(kPlainDescent);
  float param[4] = {1, 1, 1, 1};
  const float gradient[4] = {1, 2, 3, 4};
  const Buffers buffers{param, gradient, param, nullptr};
  CheckError(optimizer->strategy().Step({}, nullptr), Code::kState, "has no buffers");
  CheckOk(optimizer->Bind(0, {&buffers, 1}));
  CheckError(optimizer->Bind(1, {&buffers, 1}), Code::kInvalid, "first is 1 and count is 1");
  CheckError(optimizer->buffers().CheckRange(0, 2), Code::kInvalid,
             "expected a range within [0, 1), the parameters of the plan");
  const std::vector<float> descended = {0.5F, 0, -0.5F, -1};
  CheckOk(optimizer->strategy().Step({}, nullptr));
  CHECK(std::vector<float>(param, param + 4) == descended);
  CheckOk(optimizer->Set(0, "lr", 0));
  CheckOk(optimizer->strategy().Step({}, nullptr));
  CHECK(std::vector<float>(param, param + 4) == descended);
  CheckError(optimizer->Set(0, "no_key", 0), Code::kInvalid, "does not exist");
  double steps = 0;
  CheckOk(optimizer->Stat("steps", &steps));
  CHECK(steps == 2);
  int64_t failed_call = -1;
  CheckOk(optimizer->strategy().ReportSteps(true, &failed_call));
  CHECK(failed_call == 0);
}

TEST_CASE("Stat returns the step of group G under the name step.G, and rejects unknown names") {
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
               Cat("there is no statistic \"", name, "\": expected step.0"));
  }
  CheckError(optimizer->Stat("no_such", &value), Code::kInvalid,
             "there is no statistic \"no_such\": expected one of the names steps, step.<group>, seconds.check");
  optimizer->state().MarkUnusable("the load failed");
  CheckError(optimizer->Stat("step.0", &value), Code::kState, "the load failed");
}

TEST_CASE("Optimizer::Create rejects arguments that do not match the plan") {
  const Placement first_of_two = ReplicaPlacement(0, 2);
  Placement first_shard;
  first_shard.shard_world = 2;
  CallerArena arena(PlanOf({})->state_bytes());
  const MirrorComm three(3);
  const MirrorComm second(2, 1);
  const auto with = [](auto OptimizerDesc::*field, const auto& value) {
    OptimizerDesc desc;
    desc.*field = value;
    return desc;
  };
  const auto with_state = [](char* state, size_t bytes) {
    OptimizerDesc desc;
    desc.state = state;
    desc.state_bytes = bytes;
    return desc;
  };
  struct Case {
    Placement placement;
    OptimizerDesc desc;
    Code code;
    const char* says;
  };
  const Case cases[] = {
      {{},
       with(&OptimizerDesc::device, DeviceType::kCuda),
       Code::kInvalid,
       "desc.device_type is SHAMPOO_CUDA (2), and the device type of the plan is SHAMPOO_CPU"},
      {{}, with_state(arena.data(), 1), Code::kInvalid, "state_bytes is 1: expected at least "},
      {{},
       with_state(arena.data() + 8, size_t{1} << 20),
       Code::kInvalid,
       "state is not aligned: expected an address that is a multiple of 64"},
      {first_of_two, {}, Code::kInvalid, "desc.replica_comm is NULL and the plan's replica_world is 2"},
      {first_of_two, with(&OptimizerDesc::replica_comm, three.shared()), Code::kInvalid,
       "desc.replica_comm has rank 0 and world 3, but the plan has replica_rank 0"},
      {first_shard, with(&OptimizerDesc::shard_comm, second.shared()), Code::kInvalid,
       "desc.shard_comm has rank 1 and world 2, but the plan has shard_rank 0"},
      {{},
       with(&OptimizerDesc::replica_comm, MakeDeviceComm()),
       Code::kUnsupported,
       "desc.replica_comm takes buffers in GPU memory"},
      {{},
       with(&OptimizerDesc::shard_comm, MakeDeviceComm()),
       Code::kUnsupported,
       "desc.shard_comm takes buffers in GPU memory"}};
  for (const Case& one : cases) {
    CAPTURE(std::string(one.says));
    std::unique_ptr<Optimizer> optimizer;
    CheckError(Optimizer::Create(PlanOf({}, one.placement), one.desc, {}, &optimizer), one.code, one.says);
    CHECK(optimizer == nullptr);
  }
}

TEST_CASE("creating an optimizer with shard_mode=gather fails without a communicator of the shard ranks") {
  StepFixture::Setup setup{.keys = kGather, .params = StepFixture::Describe({{2, 2}})};
  setup.placement.shard_world = 2;
  setup.params[0].form = ShardForm::kFlat;
  setup.params[0].flat_count = 2;
  std::unique_ptr<Optimizer> optimizer;
  CheckError(Optimizer::Create(StepFixture(setup).shared_plan(), {}, {}, &optimizer), Code::kInvalid,
             "desc.shard_comm is NULL with shard_mode=gather");
}

TEST_CASE("Optimizer::Create without a plan reports the error to the other ranks") {
  const MirrorComm comm;
  OptimizerDesc desc;
  desc.replica_comm = comm.shared();
  std::unique_ptr<Optimizer> optimizer;
  CheckError(Optimizer::Create(nullptr, desc, Invalid("plan is NULL"), &optimizer), Code::kInvalid, "plan is NULL");
  CHECK(comm.calls > 0);                          // the other ranks received the error
  CHECK(comm.get()->optimizer_ids_taken() == 1);  // a rank without a plan also takes an id
  comm.get()->Abort(CommFailed("the network is gone"));
  CheckError(Optimizer::Create(nullptr, desc, {}, &optimizer), Code::kComm,
             "a collective or a CUDA call failed before");
}

TEST_CASE("replicas with different plans cannot create an optimizer") {
  const Placement first = ReplicaPlacement(0, 2);
  MirrorComm comm;
  // From the second exchange on, the fake changes each number that rank 1 sends in AllGatherInt(). The segments of
  // AllGatherInt() have 64 bytes.
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

TEST_CASE("an optimizer keeps its state in the memory that the caller passes") {
  const auto plan = PlanOf(kPlainDescent);
  CallerArena arena(plan->state_bytes());
  OptimizerDesc desc;
  desc.state = arena.data();
  desc.state_bytes = static_cast<size_t>(plan->state_bytes());
  std::unique_ptr<Optimizer> optimizer;
  CheckOk(Optimizer::Create(plan, desc, {}, &optimizer));
  CHECK(optimizer->state().out() == arena.data());
}

TEST_CASE("an export needs a blend from 0 to 1 and an address for each parameter") {
  const auto optimizer = MakeOptimizer("weight_ema=0.5");
  float param[4] = {1, 2, 3, 4};
  const float gradient[4] = {};
  const Buffers buffers{param, gradient, param, nullptr};
  CheckOk(optimizer->Bind(0, {&buffers, 1}));
  float weights[4] = {};
  void* const addresses[] = {weights, weights};
  const std::span<void* const> one(addresses, 1);
  for (const double blend : {-0.001, 1.001, static_cast<double>(kNan)}) {
    CheckError(optimizer->Export({}, blend, one), Code::kInvalid, "expected a number in [0, 1]");
  }
  CheckError(optimizer->Export({}, 1, addresses), Code::kInvalid, "count is 2: expected 1, the number of parameters");
  CheckError(optimizer->Export(Invalid("a caller's mistake"), 2, addresses), Code::kInvalid, "a caller's mistake");
  CHECK(weights[3] == 0);
  for (const double blend : {0.0, 1.0}) {
    CheckOk(optimizer->Export({}, blend, one));
    CHECK(weights[3] == 4);
  }
}

// Creates an optimizer on each of two shard ranks. keys(rank) returns the keys of a rank.
template <typename KeysOf>
std::vector<Status> CreateOnShards(ThreadRanks* threads, const KeysOf& keys,
                                   std::vector<std::unique_ptr<Optimizer>>* out) {
  std::vector<Status> statuses(2);
  std::vector<std::shared_ptr<const PlanData>> plans;
  for (int rank = 0; rank < 2; ++rank) {
    plans.push_back(StepFixture::MakePlan(ShardRank::SetupOf(*threads->comm(rank), kPlainDescent + keys(rank))));
  }
  out->resize(2);
  threads->Run([&](int rank) {
    const auto at = static_cast<size_t>(rank);
    OptimizerDesc desc;
    desc.shard_comm = threads->comm(rank);
    statuses[at] = Optimizer::Create(plans[at], desc, {}, &(*out)[at]);
  });
  return statuses;
}

TEST_CASE("with both values of shard_mode, shard ranks step together and report errors to each other") {
  for (const char* const mode : {"local", "gather"}) {
    ThreadRanks threads(2);
    std::vector<std::unique_ptr<Optimizer>> optimizers;
    const OptionKeys keys = Cat("shard_mode=", mode);
    CheckAllOk(CreateOnShards(
        &threads, [&](int) { return keys; }, &optimizers));
    std::vector<float> params[2][2];
    const std::vector<float> gradients(12, 1.0F);
    threads.Run([&](int rank) {
      Optimizer& optimizer = *optimizers[static_cast<size_t>(rank)];
      for (int p = 0; p < 2; ++p) {
        std::vector<float>& param = params[rank][p];
        param.assign(static_cast<size_t>(optimizer.state().plan().params[static_cast<size_t>(p)].elements), 1.0F);
        const Buffers buffers{param.data(), gradients.data(), param.data(), nullptr};
        CheckOk(optimizer.Bind(p, {&buffers, 1}));
      }
      CheckOk(optimizer.strategy().Step({}, nullptr));
      CheckError(optimizer.strategy().Step(rank == 1 ? Invalid("a caller's mistake") : Status(), nullptr),
                 Code::kInvalid, "shard rank 1: a caller's mistake");
    });
    for (const auto& of_rank : params) {
      for (const std::vector<float>& param : of_rank) CHECK(param == std::vector<float>(param.size(), 0.5F));
    }
  }
}

TEST_CASE("shards with different plans cannot create an optimizer") {
  ThreadRanks threads(2);
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  const auto keys = [](int rank) { return OptionKeys(rank == 0 ? "momentum=0.5" : "momentum=0.25"); };
  CheckAllFail(CreateOnShards(&threads, keys, &optimizers), Code::kInvalid,
               "the plans or communicators differ: shard rank 1 has");
  CHECK(optimizers[0] == nullptr);
}

TEST_CASE("a step on a device makes one exchange among replicas and one among shard ranks") {
  for (const bool has_replicas : {false, true}) {
    for (const bool has_shards : {false, true}) {
      FakeDevice& device = FakeDevice::Reset();
      const MirrorComm replicas(2, 0, true);
      const MirrorComm shards(2, 0, true);
      OptimizerDesc desc;
      desc.device = DeviceType::kCuda;
      StepFixture::Setup setup{.keys = {}, .params = StepFixture::Describe({{2, 2}})};
      setup.placement.device = DeviceType::kCuda;
      if (has_replicas) {
        setup.placement.replica_world = 2;
        desc.replica_comm = replicas.shared();
      }
      if (has_shards) {
        setup.placement.shard_world = 2;
        desc.shard_comm = shards.shared();
      }
      std::unique_ptr<Optimizer> optimizer;
      CheckOk(Optimizer::Create(StepFixture::MakePlan(setup), desc, {}, &optimizer));
      float param[4] = {};
      const float gradient[4] = {};
      const Buffers buffers{param, gradient, param, nullptr};
      CheckOk(optimizer->Bind(0, {&buffers, 1}));
      const int64_t of_create[] = {replicas.calls, shards.calls};
      CheckOk(optimizer->strategy().Step({}, nullptr));
      CHECK(device.steps.size() == 1);
      CHECK(replicas.calls - of_create[0] == (has_replicas ? 1 : 0));
      CHECK(shards.calls - of_create[1] == (has_shards ? 1 : 0));
    }
  }
}

}  // namespace
}  // namespace shampoo
