// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"
#include "core/comm/nccl.h"

using shampoo::Guard;
using shampoo::RequireArgument;
using shampoo::Status;

shampoo_status shampoo_comm_from_ops(shampoo_comm** out, const shampoo_comm_ops* ops) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(out, "out"));
    shampoo_comm_ops own;
    SHAMPOO_RETURN_IF_ERROR(shampoo::ReadStruct(ops, sizeof own, "ops", &own));
    if (own.device_type != SHAMPOO_CPU && own.device_type != SHAMPOO_CUDA) {
      return shampoo::Invalid("ops.device_type is ", own.device_type, ": expected SHAMPOO_CPU (1) or SHAMPOO_CUDA (2)");
    }
    auto made = std::make_unique<shampoo_comm>();
    SHAMPOO_RETURN_IF_ERROR(
        shampoo::Communicator::Create({own.user, own.rank, own.world, own.device_type == SHAMPOO_CUDA, own.all_gather,
                                       own.all_to_all, own.async_error, own.abort, own.release},
                                      &made->comm));
    *out = made.release();
    return {};
  });
}

shampoo_status shampoo_comm_from_nccl(shampoo_comm** out, void* nccl_comm, const char* libnccl_path) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(out, "out"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(nccl_comm, "nccl_comm"));
    auto made = std::make_unique<shampoo_comm>();
    shampoo::CommOps ops;
    SHAMPOO_RETURN_IF_ERROR(shampoo::NcclOps(nccl_comm, libnccl_path, &ops));
    Status status = shampoo::Communicator::Create(ops, &made->comm);
    if (!status.ok()) ops.release(ops.user);
    SHAMPOO_RETURN_IF_ERROR(std::move(status));
    *out = made.release();
    return {};
  });
}

void shampoo_comm_destroy(shampoo_comm* comm) { delete comm; }
