// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/filter_pass.h"

#include <algorithm>

#include "core/backend/cpu/block_data_operand.h"
#include "core/backend/cpu/block_rounding.h"
#include "core/backend/cpu/strided.h"
#include "core/base/kernels/kernels.h"
#include "core/rules/update.h"

namespace shampoo {
template <typename Real>
double FilterGradient(const StepProgram& program, const StepItem& item, const BlockData<Real>& g, const Range& part,
                      char* arena, Real* h, Real* d) {
  const Block& block = *item.block;
  const KernelsOf<Real>& kernels = BestKernels().Of<Real>();
  const FilterScalars<Real> scalars = MakeFilterScalars<Real>(program);
  const bool filtered = block.filtered_grad.present() && program.filter_decay != 0;
  const bool has_moment = block.moment().present();
  const bool grafted = program.grafting != Grafting::kNone;
  const BlockRounding filtered_rounding = BlockRounding::OfState(item, RoundedState::kFilteredGrad);
  const BlockRounding moment_rounding = BlockRounding::OfState(item, RoundedMomentOf(block));
  MutableOperand<Real> filtered_grad(arena + block.filtered_grad.offset, block.filtered_grad.dtype, &filtered_rounding);
  MutableOperand<Real> moment(arena + block.moment().offset, block.moment().dtype, &moment_rounding);
  Real direction[kChunkElements];
  double square = 0;

  BlockDataOperand<Real> gradients(g, block);
  ForEachViewChunk(gradients.run(), part, [&](int64_t at, int64_t n) {
    const Real* const gradient = gradients.Read(at, n);
    Real* const v = has_moment ? moment.Open(at, n) : nullptr;
    Real* const e = filtered ? filtered_grad.Open(at, n) : nullptr;
    Real* const target = d != nullptr ? d + at : direction;
    kernels.filter(scalars, gradient, v, e, h != nullptr ? h + at : nullptr, target, n);
    if (has_moment) moment.Close(at, n);
    if (filtered) {
      filtered_grad.Close(at, n);
    } else if (h != nullptr) {
      std::copy(gradient, gradient + n, h + at);
    }
    if (!grafted) return;
    const Real* const own = filtered ? h + at : gradient;
    if (!has_moment && d != nullptr && d != h) std::copy(own, own + n, target);
    square += kernels.sum_of_squares(has_moment ? target : own, n);
  });
  return square;
}

template double FilterGradient<float>(const StepProgram&, const StepItem&, const BlockData<float>&, const Range&, char*,
                                      float*, float*);
template double FilterGradient<double>(const StepProgram&, const StepItem&, const BlockData<double>&, const Range&,
                                       char*, double*, double*);

}  // namespace shampoo
