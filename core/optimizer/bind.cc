// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/base/text.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"
#include "core/plan/memory_layout.h"

namespace shampoo {
namespace {

struct MemoryRange {
  const char* name;
  const void* start;
  int64_t bytes;

  bool Overlaps(const MemoryRange& other) const {
    if (start == nullptr || other.start == nullptr) return false;
    const auto mine = reinterpret_cast<uintptr_t>(start);
    const auto theirs = reinterpret_cast<uintptr_t>(other.start);
    return mine < theirs + static_cast<uintptr_t>(other.bytes) && theirs < mine + static_cast<uintptr_t>(bytes);
  }
};

Status CheckAlignment(const char* name, const void* start, Dtype dtype) {
  if (reinterpret_cast<uintptr_t>(start) % SizeOf(dtype) == 0) return {};
  return Invalid(name, " is not aligned: an array of ", NameOf(dtype), " starts at a multiple of ", SizeOf(dtype),
                 " bytes");
}

}  // namespace

Status Optimizer::CheckBuffers(const Param& param, const Buffers& buffers) const {
  if (param.elements == 0) return {};
  const ParamDesc& desc = param.desc;
  if (buffers.grad != nullptr && (buffers.param == nullptr || buffers.out == nullptr)) {
    return Invalid(buffers.param == nullptr ? "param" : "out",
                   " is NULL although grad is not: a parameter with a "
                   "gradient needs the memory to read (param) and to write (out, which may be param)");
  }
  if ((buffers.out != nullptr || buffers.copy != nullptr) && buffers.param == nullptr) {
    return Invalid("param is NULL although ", buffers.out != nullptr ? "out" : "copy", " is not");
  }
  SHAMPOO_RETURN_IF_ERROR(CheckAlignment("param", buffers.param, desc.param_dtype));
  SHAMPOO_RETURN_IF_ERROR(CheckAlignment("grad", buffers.grad, desc.grad_dtype));
  SHAMPOO_RETURN_IF_ERROR(CheckAlignment("out", buffers.out, desc.out_dtype));
  SHAMPOO_RETURN_IF_ERROR(CheckAlignment("copy", buffers.copy, desc.copy_dtype));

  auto range = [&](const char* name, const void* start, Dtype dtype) {
    return MemoryRange{name, start, param.elements * static_cast<int64_t>(SizeOf(dtype))};
  };
  const MemoryRange in = range("param", buffers.param, desc.param_dtype);
  const MemoryRange grad = range("grad", buffers.grad, desc.grad_dtype);
  const MemoryRange out = range("out", buffers.out, desc.out_dtype);
  const MemoryRange copy = range("copy", buffers.copy, desc.copy_dtype);
  const bool in_place = buffers.out == buffers.param && desc.out_dtype == desc.param_dtype;
  for (const auto& [written, read] :
       {std::pair{&out, &in}, {&out, &grad}, {&copy, &in}, {&copy, &grad}, {&copy, &out}}) {
    if (written == &out && read == &in && in_place) continue;
    if (written->Overlaps(*read)) {
      return Invalid(written->name, " overlaps ", read->name,
                     ": only out may be the same memory as param, with the "
                     "same dtype; give the others memory of their own");
    }
  }
  return {};
}

Status Optimizer::CheckRange(int first, int count) const {
  const auto params = static_cast<int64_t>(plan_->params.size());
  if (first >= 0 && count >= 0 && first <= params && count <= params - first) return {};
  return Invalid("first is ", first, " and count ", count, ": expected a range of the plan's ", params, " parameters");
}

Status Optimizer::Bind(int first, std::span<const Buffers> buffers) {
  SHAMPOO_RETURN_IF_ERROR(CheckRange(first, static_cast<int>(buffers.size())));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Param& param = plan_->params[static_cast<size_t>(first) + i];
    Status status = CheckBuffers(param, buffers[i]);
    if (!status.ok()) return std::move(status).Within(Cat("parameter \"", param.desc.name, "\""));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    buffers_[static_cast<size_t>(first) + i] = buffers[i];
    bound_[static_cast<size_t>(first) + i] = true;
  }
  if (device_) device_->buffers_changed = true;
  return {};
}

Status Optimizer::BindState(const void* state_in, void* state_out) {
  if ((state_in == nullptr) != (state_out == nullptr)) {
    return Invalid(state_in == nullptr ? "state_in" : "state_out",
                   " is NULL and the other is not: give both, or both "
                   "NULL for the arena of create");
  }
  if (state_in == nullptr) {
    if (device_) device_->Forget();
    is_initial_ = is_initial_ && state_out_ == created_state_;
    state_in_ = created_state_;
    state_out_ = created_state_;
    return {};
  }
  for (const void* state : {state_in, static_cast<const void*>(state_out)}) {
    if (reinterpret_cast<uintptr_t>(state) % kStateAlignment != 0) {
      return Invalid(state == state_in ? "state_in" : "state_out", " is not aligned: expected a multiple of ",
                     kStateAlignment, " bytes");
    }
  }
  const int64_t bytes = plan_->state_bytes();
  if (state_in != state_out && MemoryRange{"", state_in, bytes}.Overlaps({"", state_out, bytes})) {
    return Invalid(
        "state_in and state_out overlap: expected the same arena, or two apart by at least the plan's "
        "\"state\" bytes, which are ",
        bytes);
  }
  is_initial_ = false;
  state_in_ = static_cast<const char*>(state_in);
  state_out_ = static_cast<char*>(state_out);
  return {};
}

}  // namespace shampoo
