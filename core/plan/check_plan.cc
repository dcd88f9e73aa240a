// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/check_plan.h"

#include "core/base/amount.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/config/keys.h"
#include "core/plan/blocking.h"

namespace shampoo {
namespace {

Status CheckRank(const char* kind, int rank, int world) {
  constexpr int kMaxRanks = 1 << 20;
  if (world < 1 || world > kMaxRanks) return Invalid(kind, "_world is ", world, ": expected 1 to ", kMaxRanks);
  if (rank < 0 || rank >= world) {
    return Invalid(kind, "_rank is ", rank, ": expected ", IndicesText(world), " because ", kind, "_world is ", world);
  }
  return {};
}

Status CheckShape(const char* field, const Shape& shape, int64_t* product) {
  for (int k = 0; k < shape.ndim; ++k) {
    if (shape[k] < 0) {
      return Invalid(field, "[", k, "] is ", shape[k],
                     ": expected at least 0 (a parameter with a dim of 0 is empty, and is ignored)");
    }
  }
  // An element has at most 8 bytes, so offsets in bytes fit int64_t if there are at most 2^59 elements.
  if (!CheckedProduct(shape, product) || *product > (int64_t{1} << 59)) {
    return Invalid(field, " is ", ShapeText(shape),
                   ": the number of elements exceeds 2^59; check that ndim is right, and that each dim is a number of "
                   "elements, not of bytes");
  }
  return {};
}

Status CheckFlat(const ParamDesc& desc, int64_t elements) {
  if (desc.flat_offset < 0 || desc.flat_count < 0 || desc.flat_offset > elements ||
      desc.flat_count > elements - desc.flat_offset) {
    return Invalid("flat_offset is ", desc.flat_offset, " and flat_count is ", desc.flat_count,
                   ": expected a range within [0, ", elements, "), the elements of the shape ", ShapeText(desc.shape));
  }
  return {};
}

Status CheckRectangle(const ParamDesc& desc) {
  for (int k = 0; k < desc.shape.ndim; ++k) {
    const int64_t first = desc.local_offset[k];
    const int64_t count = desc.local_shape[k];
    if (first < 0 || count < 0 || first > desc.shape[k] || count > desc.shape[k] - first) {
      return Invalid("local_offset[", k, "] is ", first, " and local_shape[", k, "] is ", count,
                     ": expected a range within [0, ", desc.shape[k], "), dim ", k, " of the shape ",
                     ShapeText(desc.shape));
    }
  }
  return {};
}

Status CheckRowSplits(const ParamDesc& desc) {
  if (desc.row_splits.empty()) return {};
  const Shape tensor = StackedTensorShape(desc.shape, desc.stack_dims);
  if (tensor.ndim == 0) {
    return Invalid("row_splits[0] is ", desc.row_splits[0], ", but the shape ", ShapeText(desc.shape),
                   " with stack_dims ", desc.stack_dims,
                   " leaves no dim to divide: expected no row_splits, or a shape with more dims than stack_dims");
  }
  const int dim = RowDim(tensor, desc.fan);
  const int64_t rows = tensor[dim];
  int64_t left = rows;
  for (size_t i = 0; i < desc.row_splits.size(); ++i) {
    const int64_t size = desc.row_splits[i];
    if (size < 1) return Invalid("row_splits[", i, "] is ", size, ": expected at least 1; 0 ends the list");
    left = size <= left ? left - size : -1;
    if (left < 0) break;
  }
  const bool repeats = desc.row_splits.size() == 1 && rows % desc.row_splits[0] == 0;
  if (repeats && rows / desc.row_splits[0] > kMaxBlocks) {
    return Invalid("row_splits[0] is ", desc.row_splits[0], ": it divides a dim of length ", rows, " into more than ",
                   kMaxBlocks, " parts; use a larger size");
  }
  if (left != 0 && !repeats) {
    return Invalid("row_splits is ", ShapeText(Shape::Of(desc.row_splits)), ": expected sizes whose sum is ", rows,
                   ", or one size that divides ", rows, ", for dim ", desc.stack_dims + dim, " of the shape ",
                   ShapeText(desc.shape));
  }
  return {};
}

}  // namespace

Status CheckPlacement(const Placement& placement) {
  SHAMPOO_RETURN_IF_ERROR(CheckRank("replica", placement.replica_rank, placement.replica_world));
  SHAMPOO_RETURN_IF_ERROR(CheckRank("shard", placement.shard_rank, placement.shard_world));
  if (placement.threads < 0 || placement.threads > 4096) {
    return Invalid("threads is ", placement.threads,
                   ": expected 0 to 4096; 0 selects the value of the key \"threads\"");
  }
  return {};
}

Status CheckDeviceKeys(const Settings& settings, const Placement& placement) {
  if (placement.device != DeviceType::kCpu || settings.muon_math == MuonMath::kF32) return {};
  return Unsupported(
      "key muon_math: the value bf16 is not supported on the CPU: expected f32, or a plan for a GPU (device_type "
      "SHAMPOO_CUDA)");
}

Status CheckRootDevice(const Settings& default_group, const Settings& settings, const Placement& placement) {
  const bool on_host = default_group.root_device == RootDevice::kHost && placement.device != DeviceType::kCpu;
  if (!on_host) return {};
  if (settings.root_async > 0 || settings.method != Method::kShampoo) return {};
  return Invalid(
      "key root_device: the value host is not allowed with root_async=0, because a step cannot wait for the host: "
      "expected the value device, or a root_async of at least 1 in every group with method=shampoo");
}

Status CheckParamDesc(const ParamDesc& desc, int64_t* elements) {
  if (desc.name.empty()) {
    return Invalid(
        "name is empty: expected a name that is unique and the same in every run, because checkpoints identify "
        "parameters by name");
  }
  const std::string context = Cat("parameter \"", desc.name, "\"");
  if (!IsUtf8(desc.name)) {
    return Invalid("name is not valid UTF-8: expected UTF-8, because checkpoints store names in this encoding")
        .Within(context);
  }
  SHAMPOO_RETURN_IF_ERROR(CheckShape("shape", desc.shape, elements).Within(context));
  if (desc.stack_dims < 0 || desc.stack_dims > desc.shape.ndim) {
    return Invalid("stack_dims is ", desc.stack_dims, ": expected 0 to ndim, which is ", desc.shape.ndim)
        .Within(context);
  }
  SHAMPOO_RETURN_IF_ERROR(CheckRowSplits(desc).Within(context));
  return CheckShard(desc, elements).Within(context);
}

Status CheckShard(const ParamDesc& desc, int64_t* elements) {
  (void)CheckedProduct(desc.shape, elements);  // CheckParamDesc() has checked the shape
  if (desc.form == ShardForm::kFlat) {
    SHAMPOO_RETURN_IF_ERROR(CheckFlat(desc, *elements));
    *elements = desc.flat_count;
  } else if (desc.form == ShardForm::kRectangle) {
    SHAMPOO_RETURN_IF_ERROR(CheckRectangle(desc));
    (void)CheckedProduct(desc.local_shape, elements);  // cannot overflow: the shard is within the parameter
  }
  return {};
}

}  // namespace shampoo
