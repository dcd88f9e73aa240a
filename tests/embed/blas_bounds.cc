// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Calls BLAS with operands that end where mapped memory ends, because a buffer or an arena of a caller can end there.
// An access beyond the end crashes the program. Usage: blas_bounds [KERNELS FLAG]. If KERNELS are not the kernels that
// OpenBLAS uses, or FLAG is not in /proc/cpuinfo, the test is skipped.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>

#include "core/blas/blas.h"
#include "core/blas/scratch.h"
#include "tests/embed/blas_kernels.h"
#include "tests/embed/require.h"

namespace shampoo {
namespace {

constexpr int64_t kMaxSize = 70;  // several times the unroll factor of any kernel

// Memory followed by a page that cannot be read.
class Guarded {
 public:
  explicit Guarded(size_t bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    bytes_ = (bytes + page - 1) / page * page;
    void* const mapped = mmap(nullptr, bytes_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED, "no memory for %zu bytes", bytes);
    base_ = static_cast<char*>(mapped);
    REQUIRE(mprotect(base_ + bytes_, page, PROT_NONE) == 0, "the page at the end can still be read");
  }
  ~Guarded() { (void)munmap(base_, bytes_ + static_cast<size_t>(sysconf(_SC_PAGESIZE))); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // Returns memory for `count` elements that end where the unreadable page begins.
  template <typename Real>
  Real* Last(int64_t count) const {
    Real* const first = reinterpret_cast<Real*>(base_ + bytes_) - count;
    std::fill_n(first, count, Real{1});
    return first;
  }

 private:
  char* base_ = nullptr;
  size_t bytes_ = 0;
};

template <typename Real>
void CallAll(int64_t n, int64_t k) {
  const Guarded a_memory(kMaxSize * kMaxSize * sizeof(double));
  const Guarded b_memory(kMaxSize * kMaxSize * sizeof(double));
  const Guarded c_memory(kMaxSize * kMaxSize * sizeof(double));
  const auto a = [&](int64_t count) { return a_memory.Last<Real>(count); };
  const auto b = [&](int64_t count) { return b_memory.Last<Real>(count); };
  const auto c = [&](int64_t count) { return c_memory.Last<Real>(count); };
  blas::Syrk(false, n, k, 1, a(n * k), k, 0, c(n * n), n);
  blas::Syrk(true, n, k, 1, a(n * k), n, 0, c(n * n), n);
  blas::Gemm(n, k, n, a(n * n), n, b(n * k), k, c(n * k), k);
  blas::Gemm({true, true, 1, 0}, n, k, n, a(n * n), n, b(n * k), n, c(n * k), k);
  blas::Symm(false, n, k, a(n * n), n, b(n * k), k, c(n * k), k);
  blas::Symm(true, k, n, a(n * n), n, b(n * k), n, c(n * k), n);
  for (const bool flag : {false, true}) {
    blas::Gemv(flag, n, a(n * n), b(n), c(n));
    blas::Symv(flag, n, a(n * n), n, b(n), c(n));
  }
}

}  // namespace
}  // namespace shampoo

int main(int argc, char** argv) {
  if (!shampoo::KernelsRunHere(argc, argv)) return SKIPPED;
  shampoo::blas::Scratch scratch;
  REQUIRE(shampoo::blas::Scratch::Create({}, &scratch).ok(), "no scratch memory");
  const shampoo::blas::ScratchUse use(&scratch);
  for (int64_t n = 1; n <= shampoo::kMaxSize; ++n) {
    for (const int64_t k : {int64_t{1}, int64_t{3}, n}) {
      std::cout << n << " x " << k << std::endl;  // after a crash, the last line shows n and k
      shampoo::CallAll<float>(n, k);
      shampoo::CallAll<double>(n, k);
    }
  }
  return 0;
}
