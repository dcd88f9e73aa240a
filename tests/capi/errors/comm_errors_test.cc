// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "errors_test_util.h"

namespace shampoo_test {
namespace {

struct Calls {
  int gathered = 0;
  int released = 0;
};

// A world of one rank: a gather copies nothing.
shampoo_comm_ops OpsOf(Calls* account) {
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  ops.user = account;
  ops.all_gather = [](void* user, const void*, void*, size_t, void*) -> int32_t {
    ++static_cast<Calls*>(user)->gathered;
    return 0;
  };
  ops.release = [](void* user) { ++static_cast<Calls*>(user)->released; };
  return ops;
}

void CheckRefused(const shampoo_comm_ops& ops, std::initializer_list<std::string> words) {
  auto* const untouched = reinterpret_cast<shampoo_comm*>(uintptr_t{64});
  shampoo_comm* comm = untouched;
  CHECK_ERROR(shampoo_comm_from_ops(&comm, &ops), SHAMPOO_E_INVALID, words);
  CHECK(comm == untouched);
}

TEST_CASE("shampoo_comm_from_ops rejects wrong callbacks without calling release") {
  Calls account;
  const shampoo_comm_ops good = OpsOf(&account);
  shampoo_comm* comm = nullptr;
  CHECK_ERROR(shampoo_comm_from_ops(nullptr, &good), SHAMPOO_E_INVALID, {"out is NULL"});
  CHECK_ERROR(shampoo_comm_from_ops(&comm, nullptr), SHAMPOO_E_INVALID, {"ops is NULL"});
  shampoo_comm_ops ops = good;
  ops.all_gather = nullptr;
  CheckRefused(ops, {"ops.all_gather is NULL"});
  for (const int32_t world : {0, -1}) {
    ops = good;
    ops.world = world;
    CheckRefused(ops, {"ops.world is " + Text(world), "at least 1"});
  }
  for (const int32_t rank : {-1, 3}) {
    ops = good;
    ops.world = 3;
    ops.rank = rank;
    CheckRefused(ops, {"ops.rank is " + Text(rank), "0 to 2"});
  }
  ops = good;
  ops.device_type = 7;
  CheckRefused(ops, {"ops.device_type is 7", "SHAMPOO_CPU (1)", "SHAMPOO_CUDA (2)"});
  ops = good;
  ops.struct_size = 8;
  CheckRefused(ops, {"struct_size"});
  CHECK(account.released == 0);
  shampoo_comm_destroy(nullptr);
}

TEST_CASE("a communicator is released once, with its last user") {
  Calls account;
  const shampoo_comm_ops ops = OpsOf(&account);
  shampoo_comm* comm = nullptr;
  REQUIRE_OK(shampoo_comm_from_ops(&comm, &ops));
  CHECK(account.released == 0);
  shampoo_comm_destroy(comm);
  CHECK(account.released == 1);
}

TEST_CASE("without NCCL in the process an NCCL communicator is rejected") {
  int anything = 0;
  shampoo_comm* comm = nullptr;
  CHECK_ERROR(shampoo_comm_from_nccl(nullptr, &anything, nullptr), SHAMPOO_E_INVALID, {"out is NULL"});
  CHECK_ERROR(shampoo_comm_from_nccl(&comm, nullptr, nullptr), SHAMPOO_E_INVALID, {"nccl_comm is NULL"});
  CHECK_ERROR(shampoo_comm_from_nccl(&comm, &anything, nullptr), SHAMPOO_E_STATE, {"libnccl.so.2"});
  CHECK_ERROR(shampoo_comm_from_nccl(&comm, &anything, "libother.so"), SHAMPOO_E_STATE, {"libother.so"});
  CHECK(comm == nullptr);
}

TEST_CASE("an optimizer rejects communicators that do not match its plan") {
  Calls account;
  const PlanPtr plan = MakeSmallPlan();
  const auto check = [&](const shampoo_plan* of, const shampoo_comm_ops& ops, bool shards, shampoo_status code,
                         std::initializer_list<std::string> words) {
    shampoo_comm* comm = nullptr;
    REQUIRE_OK(shampoo_comm_from_ops(&comm, &ops));
    shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
    (shards ? desc.shard_comm : desc.replica_comm) = comm;
    shampoo_optimizer* optimizer = nullptr;
    CHECK_ERROR(shampoo_optimizer_create(&optimizer, of, &desc), code, words);
    CHECK(optimizer == nullptr);
    shampoo_comm_destroy(comm);
  };
  shampoo_comm_ops ops = OpsOf(&account);
  ops.device_type = SHAMPOO_CUDA;
  check(plan.get(), ops, false, SHAMPOO_E_UNSUPPORTED, {"replica_comm", "GPU"});
  // A communicator of device memory is rejected before any call.
  CHECK(account.gathered == 0);
  check(plan.get(), ops, true, SHAMPOO_E_UNSUPPORTED, {"shard_comm", "GPU"});

  shampoo_plan_desc two = SHAMPOO_PLAN_DESC_INIT;
  two.replica_world = two.shard_world = 2;
  const PlanPtr for_two = MakePlan({}, two);
  REQUIRE_OK(shampoo_plan_finish(for_two.get()));
  check(for_two.get(), OpsOf(&account), false, SHAMPOO_E_INVALID, {"replica_comm is rank 0 of 1", "replica_world 2"});
  check(for_two.get(), OpsOf(&account), true, SHAMPOO_E_INVALID, {"replica_comm is NULL", "replica_world is 2"});
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_optimizer* optimizer = nullptr;
  CHECK_ERROR(shampoo_optimizer_create(&optimizer, for_two.get(), &desc), SHAMPOO_E_INVALID,
              {"replica_comm is NULL", "replica_world is 2"});
  CHECK(account.released == 4);
}

TEST_CASE("the output updates is rejected when ranks send parameters") {
  const ConfigPtr config = MakeConfig({{"communicate", "params"}, {"output", "updates"}});
  const shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  shampoo_plan* plan = nullptr;
  CHECK_ERROR(shampoo_plan_create(&plan, config.get(), &desc), SHAMPOO_E_INVALID, {"communicate", "params", "output"});
}

}  // namespace
}  // namespace shampoo_test
