// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// BLAS never touches more of its scratch memory than Scratch::Bytes foretells, whatever kernels run
// (OPENBLAS_CORETYPE): the plan counts on it, and more would be page faults in a step.
// Usage: scratch_extent [kernels that OPENBLAS_CORETYPE asks for, and the flag of /proc/cpuinfo that they need]
#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/scratch.h"
#include "tests/embed/require.h"

namespace shampoo {
namespace {

bool CpuHas(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string word; file >> word;) {
    if (word == flag) return true;
  }
  return false;
}

// Fills a, b, c for products and eigenproblems of extents up to d and `wide`, and calls what a step calls: a block of d
// rows and `wide` columns, and its transpose.
template <typename Real>
void CallAll(int64_t d, int64_t wide) {
  const auto area = static_cast<size_t>(std::max(d, wide) * d);
  std::vector<Real> a(area);
  std::vector<Real> b(area);
  std::vector<Real> c(area);
  for (size_t i = 0; i < area; ++i) a[i] = b[i] = static_cast<Real>(std::sin(static_cast<double>(i)));
  std::vector<Real> square(static_cast<size_t>(d * d));
  blas::Syrk(false, d, wide, 1, a.data(), wide, 0, square.data(), d);
  blas::Syrk(true, d, wide, 1, a.data(), d, 0, square.data(), d);
  blas::Gemm(d, wide, d, square.data(), d, b.data(), wide, c.data(), wide);
  blas::Gemm(wide, d, d, b.data(), d, square.data(), d, c.data(), d);
  blas::Gemv(false, d, square.data(), b.data(), c.data());
  if (wide > d) return;  // the eigenproblem has been seen
  std::vector<Real> values(static_cast<size_t>(d));
  std::vector<Real> work(static_cast<size_t>(blas::EigenWork(d)));
  std::vector<int32_t> int_work(static_cast<size_t>(blas::EigenIntWork(d)));
  REQUIRE(blas::Syevd(d, square.data(), values.data(), work.data(), int_work.data()) == 0, "no eigenvalues");
}

template <typename Real>
void Check(int64_t d, int64_t wide) {
  blas::Scratch scratch;
  REQUIRE(blas::Scratch::Create(0, &scratch).ok(), "no scratch memory");
  {
    blas::ScratchUse use(&scratch);
    CallAll<Real>(d, wide);
  }
  const int64_t foretold = blas::Scratch::Bytes(std::max(d, wide), sizeof(Real));
  const int64_t touched = scratch.ResidentBytes();
  std::cout << d << " x " << wide << ", " << sizeof(Real) << " bytes: " << touched << " touched, " << foretold
            << " foretold\n";
  REQUIRE(touched <= foretold, "%lld bytes of scratch memory were touched, %lld foretold",
          static_cast<long long>(touched), static_cast<long long>(foretold));
}

}  // namespace
}  // namespace shampoo

int main(int argc, char** argv) {
  const std::string kernel = shampoo::blas::Identify().kernel;
  std::cout << "kernel: " << kernel << '\n';
  if (argc > 2 && (!shampoo::CpuHas(argv[2]) || kernel != argv[1])) {
    std::cout << "skipped: the kernels of " << argv[1] << " do not run here\n";
    return SKIPPED;
  }
  // Huge pages would be counted whole where the first of their bytes is touched.
  REQUIRE(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "huge pages cannot be turned off");
  for (const int64_t d : {1, 2, 7, 64, 200, 513, 1024}) {
    for (const int64_t wide : {d, 4 * d, std::min<int64_t>(100 * d, 20000)}) {
      if (wide * d > 2000000) continue;
      shampoo::Check<float>(d, wide);
      shampoo::Check<double>(d, wide);
    }
  }
  REQUIRE(shampoo::blas::UnplannedScratchRequests() == 0, "%lld requests beyond the scratch memory",
          static_cast<long long>(shampoo::blas::UnplannedScratchRequests()));
  return 0;
}
