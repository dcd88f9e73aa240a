// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/solver.h"

#include "core/roots/drivers.h"

namespace shampoo {

template <typename Root>
int SolveEigen(const RootSpec&, Rung, EigenDriver driver, int64_t n, Root* a, Root* l,
               const RootWorkspace<Root>& workspace) {
  return RunEigenDriver(driver, n, a, l, workspace);
}

template <typename Root>
CoupledResult<Root> SolveCoupled(const RootSpec& spec, Rung, int64_t n, int scale,
                                 const RootWorkspace<Root>& workspace) {
  return RunCoupled(spec, n, scale, workspace);
}

CansResult SolveCans(const RootSpec& spec, Rung, int64_t n, int scale, const RootWorkspace<double>& workspace) {
  return CansRoot(spec, n, scale, workspace);
}

ResolventResult SolveResolvents(const RootSpec&, Rung, int64_t n, double epsilon,
                                const RootWorkspace<float>& workspace) {
  return RunResolvents(n, epsilon, workspace);
}

template int SolveEigen<float>(const RootSpec&, Rung, EigenDriver, int64_t, float*, float*,
                               const RootWorkspace<float>&);
template int SolveEigen<double>(const RootSpec&, Rung, EigenDriver, int64_t, double*, double*,
                                const RootWorkspace<double>&);
template CoupledResult<float> SolveCoupled<float>(const RootSpec&, Rung, int64_t, int, const RootWorkspace<float>&);
template CoupledResult<double> SolveCoupled<double>(const RootSpec&, Rung, int64_t, int, const RootWorkspace<double>&);

}  // namespace shampoo
