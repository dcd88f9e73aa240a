// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/root_refresh.h"

#include <algorithm>
#include <cmath>

#include "core/base/convert.h"

namespace shampoo {
namespace {

// Whether every element survives the rounding to the dtype in which the inverse is kept (f16 ends at 65504).
template <typename Root>
bool FitsIn(Dtype dtype, const Root* x, int64_t n) {
  const double limit = LargestFinite(dtype);
  if (limit >= LargestFinite(DtypeOf<Root>())) return true;
  return std::all_of(x, x + n, [limit](Root value) { return std::fabs(static_cast<double>(value)) <= limit; });
}

template <typename Root, typename Real>
RootOutcome ComputeRoot(const StepItem& item, int k, const Real* factor, int32_t* diagonal_flag,
                        const RootWorkspace<Root>& workspace, Root* x) {
  const Block& block = *item.block;
  const StepProgram& program = *item.program;
  const int64_t d = block.shape[k];
  const Root correction = static_cast<Root>(program.factor_correction);
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = 0; j <= i; ++j) workspace.a[i * d + j] = static_cast<Root>(factor[i * d + j]) / correction;
  }
  bool diagonal = false;
  RootOutcome outcome;
  outcome.failure = InspectMatrix(d, workspace.a, &diagonal);
  if (!outcome.ok()) return outcome;
  if (!diagonal) *diagonal_flag = 0;
  const double exponent = -program.exponent_multiplier / static_cast<double>(block.root);
  outcome = EigenInverseRoot(d, *diagonal_flag != 0, program.epsilon, exponent, workspace, x);
  const Dtype kept = block.inverse[static_cast<size_t>(k)].dtype;
  if (outcome.ok() && !(FitsIn(kept, x, d * d) && FitsIn(block.computation, x, d * d))) {
    outcome.failure = RootFailure::kNotFinite;
  }
  return outcome;
}

template <typename Root, typename Real>
bool RefreshIn(const StepItem& item, int k, const Real* factor, char* arena, const SlotLayout& layout, char* workspace,
               Real* inverse) {
  const Block& block = *item.block;
  const int64_t d = block.shape[k];
  auto* const flags = reinterpret_cast<int32_t*>(arena + block.diagonal.offset);
  auto at = [workspace](int64_t offset) { return reinterpret_cast<Root*>(workspace + offset); };
  const RootWorkspace<Root> root{at(layout.root_matrix), at(layout.root_eigenvalues), at(layout.root_work),
                                 reinterpret_cast<int32_t*>(workspace + layout.root_int_work)};
  // The solver is done with its workspace when the root is put together, so the root goes there: the old inverse must
  // survive a failure.
  Root* const x = root.work;
  item.roots[k] = ComputeRoot(item, k, factor, &flags[k], root, x);
  if (!item.roots[k].ok()) return false;
  for (int64_t i = 0; i < d * d; ++i) inverse[i] = static_cast<Real>(x[i]);
  return true;
}

}  // namespace

template <typename Real>
bool RefreshRoot(const StepItem& item, int k, const Real* factor, char* arena, const SlotLayout& layout,
                 char* workspace, Real* inverse) {
  if (item.block->root_dtype == Dtype::kF64) {
    return RefreshIn<double>(item, k, factor, arena, layout, workspace, inverse);
  }
  return RefreshIn<float>(item, k, factor, arena, layout, workspace, inverse);
}

template bool RefreshRoot<float>(const StepItem&, int, const float*, char*, const SlotLayout&, char*, float*);
template bool RefreshRoot<double>(const StepItem&, int, const double*, char*, const SlotLayout&, char*, double*);

}  // namespace shampoo
