// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/root_refresh.h"

#include "core/base/convert.h"
#include "core/roots/residual.h"
#include "core/rules/growth.h"

namespace shampoo {
namespace {

RootSpec SpecOf(const StepItem& item, int k, bool may_be_diagonal) {
  const Block& block = *item.block;
  RootSpec spec = MakeRootSpec(*item.program->settings, block.root, 1, block.shape[k], block.root_dtype);
  spec.may_be_diagonal = may_be_diagonal;
  spec.id = item.first_root + k;
  return spec;
}

}  // namespace

template <typename Real>
bool RefreshRoot(const StepItem& item, int k, const SymmetricView<Real>& unscaled, char* arena,
                 const RootMemory& memory, const SymmetricTarget<Real>& inverse) {
  const Block& block = *item.block;
  int32_t* const flag = reinterpret_cast<int32_t*>(arena + block.diagonal.offset) + k;
  const RootSpec spec = SpecOf(item, k, *flag != 0);
  const SymmetricView<Real> factor = DividedByTrace(spec, unscaled);
  const double limit = RootLimit(block, static_cast<size_t>(k));
  RootReport& report = item.roots[k];
  report.outcome = ComputeRoot(spec, factor, memory, limit, inverse);
  if (!report.outcome.diagonal_input) *flag = 0;
  if (!report.outcome.ok()) return false;
  if (item.program->settings->track_root_residuals) {
    const SymmetricView<Real> root{factor.n, inverse.data, 1, inverse.ld, true};
    report.residuals = MeasureRoot(spec, report.outcome, factor, root, memory);
  }
  return true;
}

template bool RefreshRoot<float>(const StepItem&, int, const SymmetricView<float>&, char*, const RootMemory&,
                                 const SymmetricTarget<float>&);
template bool RefreshRoot<double>(const StepItem&, int, const SymmetricView<double>&, char*, const RootMemory&,
                                  const SymmetricTarget<double>&);

}  // namespace shampoo
