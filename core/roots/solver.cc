// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/solver.h"

#include <type_traits>

namespace shampoo {

template <typename Root>
int SolveEigen(const RootSpec&, Rung, EigenDriver driver, int64_t n, Root* a, Root* l,
               const RootWorkspace<Root>& workspace) {
  if constexpr (std::is_same_v<Root, double>) {
    if (driver == EigenDriver::kRelativelyRobust) return blas::Syevr(n, a, l, workspace.Work(n), workspace.ints);
    if (driver == EigenDriver::kImplicitQr) return blas::Syev(n, a, l, workspace.Work(n));
  }
  return blas::Syevd(n, a, l, workspace.Work(n), workspace.ints);
}

template <typename Root>
CoupledResult<Root> SolveCoupled(const RootSpec& spec, Rung, int64_t n, int scale,
                                 const RootWorkspace<Root>& workspace) {
  return spec.method == RootMethod::kNewton ? NewtonRoot(spec, n, scale, workspace)
                                            : HigherOrderRoot(spec, n, scale, workspace);
}

template int SolveEigen<float>(const RootSpec&, Rung, EigenDriver, int64_t, float*, float*,
                               const RootWorkspace<float>&);
template int SolveEigen<double>(const RootSpec&, Rung, EigenDriver, int64_t, double*, double*,
                                const RootWorkspace<double>&);
template CoupledResult<float> SolveCoupled<float>(const RootSpec&, Rung, int64_t, int, const RootWorkspace<float>&);
template CoupledResult<double> SolveCoupled<double>(const RootSpec&, Rung, int64_t, int, const RootWorkspace<double>&);

}  // namespace shampoo
