// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"
#include "core/backend/cpu/slot_memory.h"
#include "core/backend/cuda/device_workspace.h"
#include "core/base/amount.h"

namespace shampoo {
namespace {

Status ReadDtype(const char* field, int32_t value, Dtype* dtype) {
  if (FloatDtypeFromInt(value, dtype)) return {};
  return Invalid(field, " is ", value,
                 ": expected SHAMPOO_F32 (1), SHAMPOO_F64 (2), SHAMPOO_F16 (3) or SHAMPOO_BF16 (4)");
}

Shape ReadShape(const int64_t* dims, int32_t ndim) {
  return Shape::Of(std::span<const int64_t>(dims, static_cast<size_t>(ndim)));
}

// Reads the fields that describe a shard of a parameter with ndim dims.
Status ReadShard(const shampoo_param_desc& user_desc, int32_t ndim, ParamDesc* desc) {
  if (user_desc.shard_form < 0 || user_desc.shard_form > 2) {
    return Invalid("shard_form is ", user_desc.shard_form, ": expected 0 (whole), 1 (flat) or 2 (rectangle)");
  }
  if (user_desc.shard_form != 1 && (user_desc.flat_offset != 0 || user_desc.flat_count != 0)) {
    return Invalid("flat_offset is ", user_desc.flat_offset, " and flat_count is ", user_desc.flat_count,
                   " although shard_form is ", user_desc.shard_form,
                   ": set shard_form to 1 for a flat shard, or flat_offset and flat_count to 0");
  }
  for (int32_t k = 0; user_desc.shard_form != 2 && k < 8; ++k) {
    if (user_desc.local_offset[k] != 0 || user_desc.local_shape[k] != 0) {
      return Invalid("local_offset[", k, "] is ", user_desc.local_offset[k], " and local_shape[", k, "] is ",
                     user_desc.local_shape[k], " although shard_form is ", user_desc.shard_form,
                     ": set shard_form to 2 for a rectangle, or all of local_offset and local_shape to 0");
    }
  }
  desc->form = static_cast<ShardForm>(user_desc.shard_form);
  desc->flat_offset = user_desc.flat_offset;
  desc->flat_count = user_desc.flat_count;
  desc->local_offset = ReadShape(user_desc.local_offset, ndim);
  desc->local_shape = ReadShape(user_desc.local_shape, ndim);
  return {};
}

// Reads role, fan and row_splits.
Status ReadRole(const shampoo_param_desc& user_desc, ParamDesc* desc) {
  if (user_desc.role < SHAMPOO_HIDDEN || user_desc.role > SHAMPOO_HEAD) {
    return Invalid("role is ", user_desc.role,
                   ": expected SHAMPOO_HIDDEN (0), SHAMPOO_VECTOR (1), SHAMPOO_EMBEDDING (2) or SHAMPOO_HEAD (3)");
  }
  if (user_desc.fan < SHAMPOO_OUT_IN || user_desc.fan > SHAMPOO_IN_OUT) {
    return Invalid("fan is ", user_desc.fan, ": expected SHAMPOO_OUT_IN (0) or SHAMPOO_IN_OUT (1)");
  }
  desc->role = static_cast<Role>(user_desc.role);
  desc->fan = static_cast<Fan>(user_desc.fan);
  const int64_t* const sizes = user_desc.row_splits;
  const int64_t* const end = std::find(sizes, std::end(user_desc.row_splits), 0);
  if (std::any_of(end, std::end(user_desc.row_splits), [](int64_t size) { return size != 0; })) {
    return Invalid("row_splits[", end - sizes,
                   "] is 0, and a size follows: expected zeros only at the end of the list");
  }
  desc->row_splits.assign(sizes, end);
  return {};
}

// Converts the caller's description of a parameter. Checks only what the conversion needs: Plan::AddParam checks the
// other values.
Status ReadParamDesc(const shampoo_param_desc& user_desc, ParamDesc* desc) {
  SHAMPOO_RETURN_IF_ERROR(RequireArgument(user_desc.name, "desc.name"));
  desc->name = user_desc.name;
  const std::string context = Cat("parameter \"", desc->name, "\"");
  if (user_desc.ndim < 0 || user_desc.ndim > kMaxDims) {
    return Invalid("ndim is ", user_desc.ndim, ": expected 0 (a scalar) to ", kMaxDims).Within(context);
  }
  SHAMPOO_RETURN_IF_ERROR(ReadShard(user_desc, user_desc.ndim, desc).Within(context));
  SHAMPOO_RETURN_IF_ERROR(ReadDtype("param_dtype", user_desc.param_dtype, &desc->param_dtype).Within(context));
  SHAMPOO_RETURN_IF_ERROR(ReadDtype("grad_dtype", user_desc.grad_dtype, &desc->grad_dtype).Within(context));
  const int32_t out_dtype = user_desc.out_dtype == 0 ? user_desc.param_dtype : user_desc.out_dtype;
  const int32_t copy_dtype = user_desc.copy_dtype == 0 ? user_desc.param_dtype : user_desc.copy_dtype;
  SHAMPOO_RETURN_IF_ERROR(ReadDtype("out_dtype", out_dtype, &desc->out_dtype).Within(context));
  SHAMPOO_RETURN_IF_ERROR(ReadDtype("copy_dtype", copy_dtype, &desc->copy_dtype).Within(context));
  desc->shape = ReadShape(user_desc.shape, user_desc.ndim);
  desc->stack_dims = user_desc.stack_dims;
  SHAMPOO_RETURN_IF_ERROR(ReadRole(user_desc, desc).Within(context));
  desc->group = user_desc.group;
  return {};
}

}  // namespace
}  // namespace shampoo

using shampoo::Guard;
using shampoo::RequireArgument;
using shampoo::Status;

shampoo_status shampoo_plan_create(shampoo_plan** out, const shampoo_config* config, const shampoo_plan_desc* desc) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(out, "out"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    shampoo_plan_desc own;
    SHAMPOO_RETURN_IF_ERROR(shampoo::ReadStruct(desc, sizeof own, "desc", &own));
    const bool on_cpu = own.device_type == SHAMPOO_CPU;
    if (!on_cpu && own.device_type != SHAMPOO_CUDA) {
      return shampoo::Unsupported("desc.device_type is ", own.device_type,
                                  ": expected SHAMPOO_CPU (1) or SHAMPOO_CUDA (2)");
    }
    auto made = std::make_unique<shampoo_plan>();
    const shampoo::Placement placement = {own.threads,       own.replica_rank,
                                          own.replica_world, own.shard_rank,
                                          own.shard_world,   static_cast<shampoo::DeviceType>(own.device_type)};
    const auto workspace_bytes = on_cpu ? shampoo::CpuWorkspaceBytes : shampoo::cuda::WorkspaceBytes;
    SHAMPOO_RETURN_IF_ERROR(shampoo::Plan::Create(config->config, placement, workspace_bytes, &made->plan));
    *out = made.release();
    return {};
  });
}

void shampoo_plan_destroy(shampoo_plan* plan) { delete plan; }

shampoo_status shampoo_plan_add_group(shampoo_plan* plan, const shampoo_config* config, int32_t* group_out) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(plan, "plan"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    int group = 0;
    SHAMPOO_RETURN_IF_ERROR(plan->plan->AddGroup(config->config, &group));
    if (group_out != nullptr) *group_out = group;
    return {};
  });
}

shampoo_status shampoo_plan_add_param(shampoo_plan* plan, const shampoo_param_desc* desc, int32_t* index_out) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(plan, "plan"));
    shampoo_param_desc own;
    SHAMPOO_RETURN_IF_ERROR(shampoo::ReadStruct(desc, sizeof own, "desc", &own));
    shampoo::ParamDesc param;
    SHAMPOO_RETURN_IF_ERROR(shampoo::ReadParamDesc(own, &param));
    int index = 0;
    SHAMPOO_RETURN_IF_ERROR(plan->plan->AddParam(std::move(param), &index));
    if (index_out != nullptr) *index_out = index;
    return {};
  });
}

shampoo_status shampoo_plan_add_shard(shampoo_plan* plan, int32_t param, int32_t shard_rank,
                                      const shampoo_param_desc* desc) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(plan, "plan"));
    shampoo_param_desc own;
    SHAMPOO_RETURN_IF_ERROR(shampoo::ReadStruct(desc, sizeof own, "desc", &own));
    shampoo::ParamDesc shard;
    SHAMPOO_RETURN_IF_ERROR(shampoo::ReadShard(own, plan->plan->DimsOf(param), &shard));
    return plan->plan->AddShard(param, shard_rank, shard);
  });
}

shampoo_status shampoo_plan_finish(shampoo_plan* plan) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(plan, "plan"));
    return plan->plan->Finish();
  });
}

shampoo_status shampoo_plan_block_count(const shampoo_plan* plan, int64_t* count_out) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(plan, "plan"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(count_out, "count_out"));
    SHAMPOO_RETURN_IF_ERROR(plan->plan->CheckFinished());
    *count_out = static_cast<int64_t>(plan->plan->data()->blocks.size());
    return {};
  });
}

shampoo_status shampoo_plan_block(const shampoo_plan* plan, int64_t index, shampoo_block_info* info) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(plan, "plan"));
    SHAMPOO_RETURN_IF_ERROR(plan->plan->CheckFinished());
    const auto data = plan->plan->data();
    const auto count = static_cast<int64_t>(data->blocks.size());
    if (index < 0 || index >= count) {
      if (count == 0) return shampoo::Invalid("index is ", index, ": the plan has no blocks");
      return shampoo::Invalid("index is ", index, ": expected ", shampoo::IndicesText(count));
    }
    const shampoo::Block& block = data->blocks[static_cast<size_t>(index)];
    shampoo_block_info own = SHAMPOO_BLOCK_INFO_INIT;
    own.param = block.param;
    own.owner = block.owner;
    own.shard_owner = block.shard_owner;
    own.of_shard = block.piece_of_shard ? 1 : 0;
    own.ndim = block.order();
    std::copy(block.shape.dims.begin(), block.shape.dims.end(), own.shape);
    std::copy(block.tensor_stride.begin(), block.tensor_stride.end(), own.stride);
    own.flat_offset = block.tensor_offset;
    own.state_bytes = block.state_bytes;
    return shampoo::WriteStruct(own, sizeof own, "info", info);
  });
}

shampoo_status shampoo_plan_bytes(const shampoo_plan* plan, int32_t rank, const char* what, int64_t* bytes_out) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(plan, "plan"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(what, "what"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(bytes_out, "bytes_out"));
    return plan->plan->Bytes(rank, what, bytes_out);
  });
}
