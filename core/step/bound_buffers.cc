// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/bound_buffers.h"

#include <utility>

#include "core/base/memory_range.h"
#include "core/base/text.h"

namespace shampoo {

Status CheckAlignment(std::string_view name, const void* start, Dtype dtype) {
  if (reinterpret_cast<uintptr_t>(start) % SizeOf(dtype) == 0) return {};
  return Invalid(name, " is not aligned: expected an address that is a multiple of ", SizeOf(dtype),
                 ", because the dtype is ", NameOf(dtype));
}

namespace {

Status CheckBuffers(const Param& param, const Buffers& buffers) {
  if (param.elements == 0) return {};
  const ParamDesc& desc = param.desc;
  if (buffers.grad != nullptr && (buffers.param == nullptr || buffers.out == nullptr)) {
    return Invalid(buffers.param == nullptr ? "param" : "out",
                   " is NULL although grad is not: a parameter with a "
                   "gradient needs the memory to read (param) and to write (out, which may be param)");
  }
  if ((buffers.out != nullptr || buffers.copy != nullptr) && buffers.param == nullptr) {
    return Invalid("param is NULL although ", buffers.out != nullptr ? "out" : "copy",
                   " is not: pass the memory of the parameter");
  }
  SHAMPOO_RETURN_IF_ERROR(CheckAlignment("param", buffers.param, desc.param_dtype));
  SHAMPOO_RETURN_IF_ERROR(CheckAlignment("grad", buffers.grad, desc.grad_dtype));
  SHAMPOO_RETURN_IF_ERROR(CheckAlignment("out", buffers.out, desc.out_dtype));
  SHAMPOO_RETURN_IF_ERROR(CheckAlignment("copy", buffers.copy, desc.copy_dtype));

  struct Named {
    const char* name;
    MemoryRange range;
  };
  auto range = [&](const char* name, const void* start, Dtype dtype) {
    return Named{name, {start, param.elements * static_cast<int64_t>(SizeOf(dtype))}};
  };
  const Named in = range("param", buffers.param, desc.param_dtype);
  const Named grad = range("grad", buffers.grad, desc.grad_dtype);
  const Named out = range("out", buffers.out, desc.out_dtype);
  const Named copy = range("copy", buffers.copy, desc.copy_dtype);
  const bool in_place = buffers.out == buffers.param && desc.out_dtype == desc.param_dtype;
  for (const auto& [written, read] :
       {std::pair{&out, &in}, {&out, &grad}, {&copy, &in}, {&copy, &grad}, {&copy, &out}}) {
    if (written == &out && read == &in && in_place) continue;
    if (written->range.Overlaps(read->range)) {
      return Invalid(written->name, " overlaps ", read->name,
                     ": only out may be the same memory as param, with the "
                     "same dtype; use separate memory for all other buffers");
    }
  }
  return {};
}

}  // namespace

Status BoundBuffers::CheckRange(int first, int count) const {
  const auto params = static_cast<int64_t>(plan_.params.size());
  if (first >= 0 && count >= 0 && first <= params && count <= params - first) return {};
  return Invalid("first is ", first, " and count is ", count, ": expected a range within [0, ", params,
                 "), the parameters of the plan");
}

Status BoundBuffers::Bind(int first, std::span<const Buffers> buffers) {
  SHAMPOO_RETURN_IF_ERROR(CheckRange(first, static_cast<int>(buffers.size())));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Param& param = plan_.params[static_cast<size_t>(first) + i];
    Status status = CheckBuffers(param, buffers[i]);
    if (!status.ok()) return std::move(status).Within(Cat("parameter \"", param.desc.name, "\""));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    buffers_[static_cast<size_t>(first) + i] = buffers[i];
    bound_[static_cast<size_t>(first) + i] = true;
  }
  return {};
}

Status BoundBuffers::CheckAllBound() const {
  for (size_t p = 0; p < bound_.size(); ++p) {
    if (bound_[p] || plan_.params[p].elements == 0) continue;
    return WrongState("parameter \"", plan_.params[p].desc.name, "\" (index ", p,
                      ") has no buffers: call shampoo_optimizer_bind for every parameter before the first step, with "
                      "grad NULL if the parameter has no gradient");
  }
  return {};
}

}  // namespace shampoo
