// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"

namespace shampoo {
namespace {

Status ReadAllocator(const shampoo_allocator* user_struct, HostAllocator* allocator, void (**release)(void*)) {
  if (user_struct == nullptr) return {};
  shampoo_allocator own;
  SHAMPOO_RETURN_IF_ERROR(ReadStruct(user_struct, sizeof own, "allocator", &own));
  if (own.allocate == nullptr || own.deallocate == nullptr) {
    return Invalid("allocator.", own.allocate == nullptr ? "allocate" : "deallocate",
                   " is NULL: expected a function; set both allocate and deallocate");
  }
  *allocator = {own.user, own.allocate, own.deallocate};
  *release = own.release;
  return {};
}

Status ReadExecutor(const shampoo_executor* user_struct, HostExecutor* executor, void (**release)(void*)) {
  if (user_struct == nullptr) return {};
  shampoo_executor own;
  SHAMPOO_RETURN_IF_ERROR(ReadStruct(user_struct, sizeof own, "executor", &own));
  if (own.parallel_for == nullptr) return Invalid("executor.parallel_for is NULL: expected a function");
  if (own.threads < 1) return Invalid("executor.threads is ", own.threads, ": expected at least 1");
  *executor = {own.user, own.threads, own.parallel_for};
  *release = own.release;
  return {};
}

Status CheckDevice(const shampoo_optimizer_desc& desc) {
  if (desc.device_type == SHAMPOO_CUDA) return {};  // DeviceEngine::Create checks device_id
  if (desc.device_type != SHAMPOO_CPU) {
    return Unsupported("desc.device_type is ", desc.device_type, ": expected SHAMPOO_CPU (1) or SHAMPOO_CUDA (2)");
  }
  if (desc.device_id != 0)
    return Invalid("device_id is ", desc.device_id, ": expected 0, because the CPU is one device");
  if (desc.stream == nullptr) return {};
  return Invalid("desc.stream is not NULL: expected NULL on the CPU, which has no streams");
}

}  // namespace
}  // namespace shampoo

using shampoo::Guard;
using shampoo::RequireArgument;
using shampoo::Status;

shampoo_status shampoo_optimizer_create(shampoo_optimizer** out, const shampoo_plan* plan,
                                        const shampoo_optimizer_desc* desc) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(out, "out"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(plan, "plan"));
    shampoo_optimizer_desc own;
    SHAMPOO_RETURN_IF_ERROR(shampoo::ReadStruct(desc, sizeof own, "desc", &own));
    shampoo::OptimizerDesc inner;
    void (*release_allocator)(void*) = nullptr;
    void (*release_executor)(void*) = nullptr;
    // The other ranks may wait for this rank in Optimizer::Create. Errors of the following checks are therefore passed
    // to Create, which reports them to all ranks, instead of being returned here.
    Status caller_status = [&]() -> Status {
      SHAMPOO_RETURN_IF_ERROR(shampoo::CheckDevice(own));
      SHAMPOO_RETURN_IF_ERROR(plan->plan->CheckFinished());
      SHAMPOO_RETURN_IF_ERROR(shampoo::ReadAllocator(own.allocator, &inner.allocator, &release_allocator));
      return shampoo::ReadExecutor(own.executor, &inner.executor, &release_executor);
    }();
    inner.device = static_cast<shampoo::DeviceType>(own.device_type);
    inner.device_id = own.device_id;
    inner.stream = own.stream;
    inner.state = own.state;
    inner.state_bytes = own.state_bytes;
    if (own.replica_comm != nullptr) inner.replica_comm = own.replica_comm->comm;
    if (own.shard_comm != nullptr) inner.shard_comm = own.shard_comm->comm;
    auto made = std::make_unique<shampoo_optimizer>();
    SHAMPOO_RETURN_IF_ERROR(
        shampoo::Optimizer::Create(plan->plan->data(), inner, std::move(caller_status), &made->optimizer));
    made->release_allocator = release_allocator;
    made->allocator_user = inner.allocator.user;
    made->release_executor = release_executor;
    made->executor_user = inner.executor.user;
    *out = made.release();
    return {};
  });
}

void shampoo_optimizer_destroy(shampoo_optimizer* opt) {
  if (opt == nullptr) return;
  opt->optimizer.reset();  // comes first, because the optimizer uses the executor and the allocator
  if (opt->release_executor != nullptr) opt->release_executor(opt->executor_user);
  if (opt->release_allocator != nullptr) opt->release_allocator(opt->allocator_user);
  delete opt;
}

namespace {

// Runs body(optimizer). If body() fails, stores the message for shampoo_last_error() and for shampoo_optimizer_error().
template <typename Body>
shampoo_status GuardOptimizer(shampoo_optimizer* opt, Body&& body) {
  return Guard(
      [&]() -> Status {
        SHAMPOO_RETURN_IF_ERROR(RequireArgument(opt, "opt"));
        return body(*opt->optimizer);
      },
      opt == nullptr ? nullptr : &opt->last_error);
}

}  // namespace

shampoo_status shampoo_optimizer_bind(shampoo_optimizer* opt, int32_t first, int32_t count,
                                      const shampoo_buffers* buffers) {
  return GuardOptimizer(opt, [&](shampoo::Optimizer& optimizer) -> Status {
    SHAMPOO_RETURN_IF_ERROR(optimizer.buffers().CheckRange(first, count));
    if (count == 0) return {};
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(buffers, "buffers"));
    std::vector<shampoo::Buffers> own;
    own.reserve(static_cast<size_t>(count));
    const size_t distance = buffers->struct_size;
    for (int32_t i = 0; i < count; ++i) {
      const auto* const element = reinterpret_cast<const shampoo_buffers*>(reinterpret_cast<const char*>(buffers) +
                                                                           static_cast<size_t>(i) * distance);
      if (i > 0 && element->struct_size != distance) {
        return shampoo::Invalid("buffers[", i, "].struct_size is ", element->struct_size,
                                " and buffers[0].struct_size is ", distance, ": expected the same in every element");
      }
      shampoo_buffers one;
      SHAMPOO_RETURN_IF_ERROR(shampoo::ReadStruct(element, sizeof one, "buffers", &one));
      own.push_back({one.param, one.grad, one.out, one.copy});
    }
    return optimizer.Bind(first, own);
  });
}

shampoo_status shampoo_optimizer_bind_scalar(shampoo_optimizer* opt, int32_t group, const char* key, int32_t dtype,
                                             const void* value) {
  return GuardOptimizer(opt, [&](shampoo::Optimizer& optimizer) {
    return optimizer.state().hyper_parameters().Bind(group, key, dtype, value);
  });
}

shampoo_status shampoo_optimizer_bind_state(shampoo_optimizer* opt, const void* state_in, void* state_out) {
  return GuardOptimizer(opt,
                        [&](shampoo::Optimizer& optimizer) { return optimizer.state().Bind(state_in, state_out); });
}

shampoo_status shampoo_optimizer_set(shampoo_optimizer* opt, int32_t group, const char* key, double value) {
  return GuardOptimizer(opt, [&](shampoo::Optimizer& optimizer) { return optimizer.Set(group, key, value); });
}

shampoo_status shampoo_optimizer_get(const shampoo_optimizer* opt, int32_t group, const char* key, double* value_out) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(opt, "opt"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(value_out, "value_out"));
    return opt->optimizer->state().hyper_parameters().Get(group, key, value_out);
  });
}

shampoo_status shampoo_optimizer_step(shampoo_optimizer* opt, void* stream) {
  return GuardOptimizer(opt, [&](shampoo::Optimizer& optimizer) -> Status {
    return optimizer.strategy().Step(optimizer.state().memory().CheckStream(stream), stream);
  });
}

shampoo_status shampoo_optimizer_export(shampoo_optimizer* opt, double blend, int32_t count, void* const* weights) {
  return GuardOptimizer(opt, [&](shampoo::Optimizer& optimizer) -> Status {
    Status status = count > 0 ? RequireArgument(weights, "weights") : Status();
    const bool is_usable = status.ok() && count > 0;
    return optimizer.Export(std::move(status), blend, {weights, is_usable ? static_cast<size_t>(count) : 0});
  });
}

shampoo_status shampoo_optimizer_status(shampoo_optimizer* opt, int32_t wait, int64_t* step_out) {
  return GuardOptimizer(opt, [&](shampoo::Optimizer& optimizer) -> Status {
    int64_t failed = 0;
    Status status = optimizer.strategy().ReportSteps(wait != 0, &failed);
    if (step_out != nullptr) *step_out = failed;
    return status;
  });
}

const char* shampoo_optimizer_error(const shampoo_optimizer* opt) {
  return opt == nullptr ? "" : opt->last_error.c_str();
}

shampoo_status shampoo_optimizer_stat(const shampoo_optimizer* opt, const char* key, double* value_out) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(opt, "opt"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(key, "key"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(value_out, "value_out"));
    return opt->optimizer->Stat(key, value_out);
  });
}
