// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"
#include "core/state/elements.h"

namespace shampoo {
namespace {

// Checks the device type and the stream that a caller has passed. name: the name of the caller's argument for the
// device type; error messages contain this name.
Status CheckTransfer(const Optimizer& optimizer, const char* name, int32_t device_type, const void* stream) {
  SHAMPOO_RETURN_IF_ERROR(optimizer.state().memory().CheckBuffer(name, static_cast<DeviceType>(device_type)));
  return optimizer.state().memory().CheckStream(stream);
}

}  // namespace
}  // namespace shampoo

using shampoo::Guard;
using shampoo::RequireArgument;
using shampoo::Status;

shampoo_status shampoo_state_count(const shampoo_optimizer* opt, int64_t* count_out) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(opt, "opt"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(count_out, "count_out"));
    *count_out = static_cast<int64_t>(opt->optimizer->state().entries().size());
    return {};
  });
}

shampoo_status shampoo_state_describe(const shampoo_optimizer* opt, int64_t index, shampoo_state_entry* entry) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(opt, "opt"));
    const shampoo::StateEntry* found = nullptr;
    SHAMPOO_RETURN_IF_ERROR(shampoo::FindEntry(opt->optimizer->state(), index, &found));
    shampoo_state_entry own = SHAMPOO_STATE_ENTRY_INIT;
    own.key = found->key.c_str();
    std::copy(found->shape.dims.begin(), found->shape.dims.end(), own.shape);
    own.flat_offset = found->flat_offset;
    own.stored_bytes = found->stored_bytes;
    own.ndim = found->shape.ndim;
    own.dtype = static_cast<int32_t>(found->dtype);
    own.symmetric = found->form != shampoo::SymmetricForm::kNone ? 1 : 0;
    own.of_shard = found->piece_of_shard ? 1 : 0;
    own.owner = found->owner;
    own.shard_owner = found->shard_owner;
    return shampoo::WriteStruct(own, sizeof own, "entry", entry);
  });
}

shampoo_status shampoo_state_read(shampoo_optimizer* opt, int64_t index, int64_t first, int64_t count, void* dst,
                                  size_t dst_bytes, int32_t dst_device_type, void* stream) {
  return Guard(
      [&]() -> Status {
        SHAMPOO_RETURN_IF_ERROR(RequireArgument(opt, "opt"));
        SHAMPOO_RETURN_IF_ERROR(RequireArgument(dst, "dst"));
        SHAMPOO_RETURN_IF_ERROR(shampoo::CheckTransfer(*opt->optimizer, "dst_device_type", dst_device_type, stream));
        return shampoo::ReadElements(&opt->optimizer->state(), {index, first, count}, dst, dst_bytes,
                                     {static_cast<shampoo::DeviceType>(dst_device_type), stream});
      },
      opt == nullptr ? nullptr : &opt->last_error);
}

shampoo_status shampoo_state_write(shampoo_optimizer* opt, int64_t index, int64_t first, int64_t count, const void* src,
                                   size_t src_bytes, int32_t src_device_type, void* stream) {
  return Guard(
      [&]() -> Status {
        SHAMPOO_RETURN_IF_ERROR(RequireArgument(opt, "opt"));
        SHAMPOO_RETURN_IF_ERROR(RequireArgument(src, "src"));
        SHAMPOO_RETURN_IF_ERROR(shampoo::CheckTransfer(*opt->optimizer, "src_device_type", src_device_type, stream));
        return shampoo::WriteElements(&opt->optimizer->state(), {index, first, count}, src, src_bytes,
                                      {static_cast<shampoo::DeviceType>(src_device_type), stream});
      },
      opt == nullptr ? nullptr : &opt->last_error);
}
