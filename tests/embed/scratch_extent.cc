// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that BLAS uses only the scratch memory that Scratch::Create has populated: using other scratch memory would
// cause page faults in a step. The populated memory must not exceed ScratchExtent::bytes(), which the plan includes in
// the predicted bytes of workspace.
// Usage: scratch_extent [KERNELS FLAG]. If OpenBLAS does not use the kernels KERNELS, or FLAG is not in /proc/cpuinfo,
// the test is skipped.
#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <type_traits>
#include <vector>

#include "core/blas/blas.h"
#include "core/blas/eigensolver_stages.h"
#include "core/blas/scratch.h"
#include "tests/embed/blas_kernels.h"
#include "tests/embed/require.h"

namespace shampoo {
namespace {

// Makes the BLAS calls of two steps: one with a block of d rows and `wide` columns, and one with the transposed block.
template <typename Real>
void CallAll(int64_t d, int64_t wide) {
  // LAPACK calls ssymv or dsymv, which may read a few elements beyond the end of a matrix. These reads are harmless
  // in the library, because it passes only its working memory to LAPACK.
  constexpr int64_t kBeyond = 16;
  const auto area = static_cast<size_t>(std::max(d, wide) * d + kBeyond);
  std::vector<Real> a(area);
  std::vector<Real> b(area);
  std::vector<Real> c(area);
  for (size_t i = 0; i < area; ++i) a[i] = b[i] = static_cast<Real>(std::sin(static_cast<double>(i)));
  std::vector<Real> square(static_cast<size_t>(d * d + kBeyond));
  blas::Syrk(false, d, wide, 1, a.data(), wide, 0, square.data(), d);
  blas::Syrk(true, d, wide, 1, a.data(), d, 0, square.data(), d);
  blas::Gemm(d, wide, d, square.data(), d, b.data(), wide, c.data(), wide);
  blas::Gemm(wide, d, d, b.data(), d, square.data(), d, c.data(), d);
  blas::Symm(false, d, wide, square.data(), d, b.data(), wide, c.data(), wide);
  blas::Symm(true, wide, d, square.data(), d, b.data(), d, c.data(), d);
  blas::Gemv(false, d, square.data(), b.data(), c.data());
  blas::Gemv(true, d, square.data(), b.data(), c.data());
  blas::Symv(false, d, square.data(), d, b.data(), c.data());
  blas::Symv(true, d, square.data(), d, b.data(), c.data());
  if (wide > d) return;  // the calls below do not depend on `wide`; CallAll(d, d) makes them
  const int64_t k = std::min<int64_t>(d, 64);
  blas::SolveUnitTransposed(k, d, square.data(), c.data(), d);
  if constexpr (std::is_same_v<Real, float>) {  // the BLAS calls of an inverse root that needs no eigenvectors
    constexpr int64_t kPoles = 24;
    constexpr int64_t kStride = kPoles + 3;
    const int64_t width = std::min<int64_t>(d, 32);
    std::vector<float> generators(static_cast<size_t>(std::max<int64_t>(d, 32) * kStride));
    blas::SymmLower(width, d, square.data(), d, b.data(), d, c.data(), d);
    blas::Syr2k(d, width, -1, b.data(), d, c.data(), d, square.data(), d);
    blas::Gemm({false, true, 1, 0}, width, d, kPoles, generators.data(), kPoles, generators.data(), kStride, c.data(),
               d);
    blas::Gemm({true, false, -1, 1}, d, kStride, width, b.data(), d, std::vector<float>(32 * kStride).data(), kStride,
               generators.data(), kStride);
  }
  for (size_t i = 0; i < square.size(); ++i) square[i] = a[i];
  std::vector<Real> values(static_cast<size_t>(d));
  std::vector<Real> work(static_cast<size_t>(blas::EigenWork(d)));
  std::vector<int32_t> int_work(static_cast<size_t>(blas::EigenIntWork(d)));
  REQUIRE(blas::Syevd(d, square.data(), values.data(), work.data(), int_work.data()) == 0, "no eigenvalues");
  if constexpr (std::is_same_v<Real, double>) {
    for (size_t i = 0; i < square.size(); ++i) square[i] = a[i];
    REQUIRE(blas::Syevr(d, square.data(), values.data(), work.data(), int_work.data()) == 0, "no eigenvalues");
    for (size_t i = 0; i < square.size(); ++i) square[i] = a[i];
    REQUIRE(blas::Syev(d, square.data(), values.data(), work.data()) == 0, "no eigenvalues");
  }
}

// Returns how many bytes of scratch memory the call makes resident if no scratch memory is populated before.
int64_t TouchedAlone(int64_t d, int64_t wide, void (*call)(int64_t, int64_t)) {
  blas::Scratch scratch;
  REQUIRE(blas::Scratch::Create({}, &scratch).ok(), "no scratch memory");
  blas::ScratchUse use(&scratch);
  call(d, wide);
  return scratch.ResidentBytes();
}

// If `both` is true, checks the BLAS calls in float32 and float64 with the same scratch memory, as in a step whose
// root_dtype differs from the dtype of the products. If `both` is false, checks the calls in float32 if `single` is
// true, and in float64 if `single` is false.
void Check(int64_t d, int64_t wide, bool single, bool both) {
  blas::ScratchExtent extent;
  if (single || both) extent.Add(d, wide, sizeof(float));
  if (!single || both) extent.Add(d, wide, sizeof(double));
  blas::Scratch scratch;
  REQUIRE(blas::Scratch::Create(extent, &scratch).ok(), "no scratch memory");
  const int64_t populated = scratch.ResidentBytes();
  {
    blas::ScratchUse use(&scratch);
    if (single || both) CallAll<float>(d, wide);
    if (!single || both) CallAll<double>(d, wide);
  }
  const int64_t resident = scratch.ResidentBytes();
  const int64_t touched = TouchedAlone(d, wide, single ? CallAll<float> : CallAll<double>);
  std::cout << d << " x " << wide
            << (both     ? ", both"
                : single ? ", float"
                         : ", double")
            << ": " << extent.bytes() << " counted, " << populated << " populated, " << resident << " at the end, "
            << touched << " needed\n";
  REQUIRE(populated <= extent.bytes(), "%lld bytes were populated, %lld counted", static_cast<long long>(populated),
          static_cast<long long>(extent.bytes()));
  REQUIRE(resident == populated, "%lld bytes were populated, and %lld are resident after the calls",
          static_cast<long long>(populated), static_cast<long long>(resident));
}

}  // namespace
}  // namespace shampoo

int main(int argc, char** argv) {
  if (!shampoo::KernelsRunHere(argc, argv)) return SKIPPED;
  // An access to one byte of a huge page would make the whole page resident.
  REQUIRE(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "huge pages cannot be turned off");
  for (const int64_t d : {1, 2, 7, 16, 31, 64, 100, 128, 160, 200, 220, 256, 513, 1024}) {
    for (const int64_t wide : {d, 4 * d, std::min<int64_t>(100 * d, 20000)}) {
      if (wide * d > 2000000) continue;
      shampoo::Check(d, wide, true, false);
      shampoo::Check(d, wide, false, false);
      shampoo::Check(d, wide, false, true);
    }
  }
  shampoo::blas::ScratchExtent tiny;
  tiny.Add(4, 3, sizeof(float));
  tiny.Add(3, 4, sizeof(float));
  REQUIRE(tiny.bytes() <= 40 * 1024, "%lld bytes for a block of 4 x 3", static_cast<long long>(tiny.bytes()));
  REQUIRE(shampoo::blas::UnplannedScratchRequests() == 0, "%lld requests beyond the scratch memory",
          static_cast<long long>(shampoo::blas::UnplannedScratchRequests()));
  return 0;
}
