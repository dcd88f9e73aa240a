// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"
#include "core/plan/block.h"
#include "core/roots/inverse_root.h"
#include "core/roots/orthogonalize.h"

using shampoo::Guard;
using shampoo::RequireArgument;
using shampoo::Status;

namespace {

Status CheckDtype(int32_t dtype) {
  if (dtype == SHAMPOO_F32 || dtype == SHAMPOO_F64) return {};
  return shampoo::Invalid("dtype is ", dtype, ": expected SHAMPOO_F32 (1) or SHAMPOO_F64 (2)");
}

// Checks that the matrix is within the limits that a plan has for a block of method muon.
Status CheckSize(int64_t rows, int64_t columns) {
  if (rows < 1) return shampoo::Invalid("rows is ", rows, ": expected at least 1");
  if (columns < 1) return shampoo::Invalid("columns is ", columns, ": expected at least 1");
  const int64_t smaller = std::min(rows, columns);
  const int64_t larger = std::max(rows, columns);
  if (smaller <= shampoo::kLargestBlockDim && larger <= shampoo::kLargestBlock / smaller) return {};
  return shampoo::Invalid("rows is ", rows, " and columns is ", columns, ": expected min(rows, columns) of at most ",
                          shampoo::kLargestBlockDim, ", and at most 2^31 - 1 elements");
}

}  // namespace

shampoo_status shampoo_matrix_inverse_root(const shampoo_config* config, int64_t n, int32_t dtype, const void* a,
                                           void* x, int32_t root_num, int32_t root_den, shampoo_root_info* info) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(a, "a"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(x, "x"));
    if (n < 1 || n > shampoo::kLargestBlockDim) {
      return shampoo::Invalid("n is ", n, ": expected 1 to ", shampoo::kLargestBlockDim);
    }
    if (root_num < 1) return shampoo::Invalid("root_num is ", root_num, ": expected at least 1");
    if (root_den < 1) return shampoo::Invalid("root_den is ", root_den, ": expected at least 1");
    SHAMPOO_RETURN_IF_ERROR(CheckDtype(dtype));
    shampoo_root_info own = SHAMPOO_ROOT_INFO_INIT;
    if (info != nullptr) SHAMPOO_RETURN_IF_ERROR(shampoo::CheckWritable(info, sizeof own, "info"));
    shampoo::Settings settings;
    SHAMPOO_RETURN_IF_ERROR(config->config.Resolve(&settings));
    shampoo::RootResult result;
    if (dtype == SHAMPOO_F32) {
      SHAMPOO_RETURN_IF_ERROR(shampoo::InverseRoot(settings, root_num, root_den, n, static_cast<const float*>(a),
                                                   static_cast<float*>(x), &result));
    } else {
      SHAMPOO_RETURN_IF_ERROR(shampoo::InverseRoot(settings, root_num, root_den, n, static_cast<const double*>(a),
                                                   static_cast<double*>(x), &result));
    }
    own.method = static_cast<int32_t>(result.outcome.kind);
    own.iterations = result.outcome.iterations;
    own.converged = result.outcome.converged;
    own.retried = result.outcome.rungs_used;
    own.residual = result.residual;
    if (info != nullptr) SHAMPOO_RETURN_IF_ERROR(shampoo::WriteStruct(own, sizeof own, "info", info));
    return {};
  });
}

shampoo_status shampoo_matrix_orthogonalize(const shampoo_config* config, int64_t rows, int64_t columns, int32_t dtype,
                                            const void* a, void* x) {
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(config, "config"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(a, "a"));
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(x, "x"));
    SHAMPOO_RETURN_IF_ERROR(CheckSize(rows, columns));
    SHAMPOO_RETURN_IF_ERROR(CheckDtype(dtype));
    shampoo::Settings settings;
    SHAMPOO_RETURN_IF_ERROR(config->config.Resolve(&settings));
    if (dtype == SHAMPOO_F32) {
      return shampoo::OrthogonalizeMatrix(settings, rows, columns, static_cast<const float*>(a),
                                          static_cast<float*>(x));
    }
    return shampoo::OrthogonalizeMatrix(settings, rows, columns, static_cast<const double*>(a),
                                        static_cast<double*>(x));
  });
}
