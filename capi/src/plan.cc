// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"
#include "core/backend/cpu/slot_memory.h"
#include "core/backend/cuda/workspace.h"

namespace shampoo {
namespace {

Status ReadDtype(const char* field, int32_t given, Dtype* dtype) {
  if (FloatDtypeFromInt(given, dtype)) return {};
  return Invalid(field, " is ", given,
                 ": expected SHAMPOO_F32 (1), SHAMPOO_F64 (2), SHAMPOO_F16 (3) or SHAMPOO_BF16 (4)");
}

Shape ReadShape(const int64_t* dims, int32_t ndim) {
  return Shape::Of(std::span<const int64_t>(dims, static_cast<size_t>(ndim)));
}

// The fields that describe a shard of a parameter with so many dims.
Status ReadShard(const shampoo_param_desc& given, int32_t ndim, ParamDesc* desc) {
  if (given.shard_form < 0 || given.shard_form > 2) {
    return Invalid("shard_form is ", given.shard_form, ": expected 0 (whole), 1 (flat) or 2 (rectangle)");
  }
  if (given.shard_form != 1 && (given.flat_offset != 0 || given.flat_count != 0)) {
    return Invalid("flat_offset is ", given.flat_offset, " and flat_count ", given.flat_count,
                   " although shard_form is ", given.shard_form,
                   ": set shard_form to 1 for a flat shard, or leave them 0");
  }
  for (int32_t k = 0; given.shard_form != 2 && k < 8; ++k) {
    if (given.local_offset[k] != 0 || given.local_shape[k] != 0) {
      return Invalid("local_offset[", k, "] is ", given.local_offset[k], " and local_shape[", k, "] ",
                     given.local_shape[k], " although shard_form is ", given.shard_form,
                     ": set shard_form to 2 for a rectangle, or leave them 0");
    }
  }
  desc->form = static_cast<ShardForm>(given.shard_form);
  desc->flat_offset = given.flat_offset;
  desc->flat_count = given.flat_count;
  desc->local_offset = ReadShape(given.local_offset, ndim);
  desc->local_shape = ReadShape(given.local_shape, ndim);
  return {};
}

// The caller's description in the core's form; sense is made of it by the plan.
Status ReadParamDesc(const shampoo_param_desc& given, ParamDesc* desc) {
  SHAMPOO_RETURN_IF_ERROR(RequireArgument(given.name, "desc.name"));
  desc->name = given.name;
  const std::string context = Cat("parameter \"", desc->name, "\"");
  if (given.ndim < 0 || given.ndim > kMaxDims) {
    return Invalid("ndim is ", given.ndim, ": expected 0 (a scalar) to ", kMaxDims).Within(context);
  }
  SHAMPOO_RETURN_IF_ERROR(ReadShard(given, given.ndim, desc).Within(context));
  SHAMPOO_RETURN_IF_ERROR(ReadDtype("param_dtype", given.param_dtype, &desc->param_dtype).Within(context));
  SHAMPOO_RETURN_IF_ERROR(ReadDtype("grad_dtype", given.grad_dtype, &desc->grad_dtype).Within(context));
  const int32_t out_dtype = given.out_dtype == 0 ? given.param_dtype : given.out_dtype;
  const int32_t copy_dtype = given.copy_dtype == 0 ? given.param_dtype : given.copy_dtype;
  SHAMPOO_RETURN_IF_ERROR(ReadDtype("out_dtype", out_dtype, &desc->out_dtype).Within(context));
  SHAMPOO_RETURN_IF_ERROR(ReadDtype("copy_dtype", copy_dtype, &desc->copy_dtype).Within(context));
  desc->shape = ReadShape(given.shape, given.ndim);
  desc->stack_dims = given.stack_dims;
  desc->group = given.group;
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
      return shampoo::Invalid("index is ", index, ": expected 0 to ", count - 1);
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
