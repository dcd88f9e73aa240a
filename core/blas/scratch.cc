// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/blas/scratch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <vector>

#include "core/base/huge_pages.h"
#include "core/base/round_up.h"
#include "core/blas/blas.h"

namespace shampoo::blas {
namespace {

// BUFFER_SIZE in OpenBLAS's common_x86_64.h and common_arm64.h. OpenBLAS computes the block sizes of its products from
// this size.
constexpr size_t kBufferBytes = size_t{32} << 22;
// Limits that hold for all kernels of OpenBLAS 0.3.21. OpenBLAS's param.h defines the numbers P and Q for each kernel.
// The first panel (see ScratchExtent) has at most P x Q elements, which take at most 2 MiB. Each panel has at most Q
// elements along the dim over which products are summed, and Q is at most 512.
constexpr int64_t kFirstPanelBytes = int64_t{2} << 20;
constexpr int64_t kDepth = 512;
// If all panels together have at most this number of bytes, only the panels are populated. Otherwise the scratch memory
// is populated up to the end of the last panel, in huge pages.
constexpr int64_t kMaxSeparate = int64_t{512} << 10;

// `entered` is the scratch memory of this thread's innermost ScratchUse. `in_use` is true while OpenBLAS uses that
// memory. Their TLS model is initial-exec. In a process that loads the library with dlopen, thread-local variables
// of any other model would be allocated when a thread first uses them: during a step.
[[gnu::tls_model("initial-exec")]] thread_local void* entered = nullptr;
[[maybe_unused, gnu::tls_model("initial-exec")]] thread_local bool in_use = false;

std::atomic<int64_t> unplanned{0};

void* Reserve() {
  void* base = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return base == MAP_FAILED ? nullptr : base;
}

int64_t PageBytes() { return sysconf(_SC_PAGESIZE); }

// Writes to every page, so that no step has a page fault.
void Populate(void* base, int64_t bytes) {
  const int64_t page = PageBytes();
  for (int64_t at = 0; at < bytes; at += page) static_cast<volatile char*>(base)[at] = 0;
}

// FindSecondPanel() looks for the second panel in this number of pages at the beginning of the scratch memory. With
// every kernel of OpenBLAS, the second panel begins in one of these pages.
constexpr size_t kPagesOfPanels = 4096;
using Residency = std::array<unsigned char, kPagesOfPanels>;

bool ReadResidency(void* base, Residency* resident) {
  const size_t bytes = std::min(kPagesOfPanels * static_cast<size_t>(PageBytes()), kBufferBytes);
  resident->fill(0);
  return mincore(base, bytes, resident->data()) == 0;
}

// Returns the offset of the page in which the second panel begins, in bytes, for products of matrices with elements of
// type Real. Returns -1 if the offset is unknown. OpenBLAS does not report it, so the function computes a small product
// and looks for pages that have become resident. This thread must hold a ScratchUse of the Scratch with the memory
// `base`. Before this call, only calls of this function with another Real may have written to `base`.
template <typename Real>
int64_t FindSecondPanel(void* base) {
  static std::atomic<int64_t> known{0};
  if (const int64_t at = known.load(std::memory_order_relaxed); at != 0) return at;
  Residency before;
  Residency after;
  constexpr int64_t kSize = 16;
  std::array<Real, kSize * kSize> a{};
  std::array<Real, kSize * kSize> c{};
  if (!ReadResidency(base, &before)) return -1;
  Syrk(false, kSize, kSize, Real{1}, a.data(), kSize, Real{0}, c.data(), kSize);
  if (!ReadResidency(base, &after)) return -1;
  const auto is_new = [&](size_t page) { return (after[page] & 1) != 0 && (before[page] & 1) == 0; };
  size_t page = kPagesOfPanels - 1;
  while (page > 0 && !is_new(page)) --page;
  while (page > 0 && is_new(page - 1)) --page;
  if (page == 0) return -1;
  const int64_t found = static_cast<int64_t>(page) * PageBytes();
  known.store(found, std::memory_order_relaxed);
  return found;
}

#ifdef SHAMPOO_SYSTEM_BLAS
constexpr bool kNeeded = false;
#else
constexpr bool kNeeded = true;
#endif

}  // namespace

int64_t UnplannedScratchRequests() { return unplanned.load(); }

void ScratchExtent::Add(int64_t d, int64_t wide, size_t element_bytes) {
  const auto element = static_cast<int64_t>(element_bytes);
  const int64_t larger = std::max(d, wide);
  const int64_t page = PageBytes();
  // A panel holds a part of an operand: at most kDepth elements along one dim, and all elements along the other.
  // OpenBLAS rounds these two numbers up to multiples of the kernel's unrolling, which is at most 32. In OpenBLAS's
  // driver/level3, the first panel `sa` holds min_i x min_l elements, and the second panel `sb` holds min_l x min_j
  // elements. In a product with a vector, the first panel holds copies of vectors and of a small square of the
  // matrix. Each copy starts on a new page.
  constexpr int64_t kUnrolled = 32;
  const int64_t packed = (std::min(d, kDepth) + kUnrolled) * (larger + kUnrolled) * element;
  const int64_t vectors = 3 * page + 2 * larger * element;
  // One page is added, because a panel may begin in the middle of a page.
  panel_ = std::max(panel_, RoundUp(std::max(packed, vectors), page) + page);
  whole_ = std::max(whole_, kFirstPanelBytes + panel_);
  (element_bytes == sizeof(double) ? double_ : single_) = true;
}

bool ScratchExtent::panels_are_separate() const { return panels() * panel_ <= kMaxSeparate; }

int64_t ScratchExtent::bytes() const {
  if (!kNeeded) return 0;
  return panels_are_separate() ? panels() * panel_ : std::min(whole_, static_cast<int64_t>(kBufferBytes));
}

Scratch::Scratch(Scratch&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {}

Scratch::~Scratch() {
  if (base_ != nullptr) munmap(base_, kBufferBytes);
}

Status Scratch::Create(const ScratchExtent& extent, Scratch* out) {
  if (!kNeeded) return {};
  void* base = Reserve();
  if (base == nullptr) {
    return NoMemory("reserving ", kBufferBytes,
                    " bytes of address space for a thread's BLAS scratch failed: raise the "
                    "limit of the process's address space (ulimit -v) or set a smaller value of the key threads");
  }
  out->base_ = base;
  if (extent.panels_are_separate()) {
    out->PopulatePanels(extent);
  } else {
    AdviseHugePages(base, static_cast<size_t>(extent.bytes()));
    Populate(base, extent.bytes());
  }
  return {};
}

void Scratch::PopulatePanels(const ScratchExtent& extent) {
  if (extent.bytes() == 0) return;
#ifdef MADV_NOHUGEPAGE
  // With huge pages, the gap between the panels would be resident, too.
  (void)madvise(base_, kBufferBytes, MADV_NOHUGEPAGE);
#endif
  ScratchUse use(this);
  const int64_t of_single = extent.single_ ? FindSecondPanel<float>(base_) : -1;
  const int64_t of_double = extent.double_ ? FindSecondPanel<double>(base_) : -1;
  Populate(base_, extent.panel_);
  for (const int64_t at : {of_single, of_double}) {
    if (at > 0) Populate(static_cast<char*>(base_) + at, extent.panel_);
  }
}

int64_t Scratch::ResidentBytes() const {
  if (base_ == nullptr) return 0;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(kBufferBytes / page);
  if (mincore(base_, kBufferBytes, resident.data()) != 0) return -1;
  return std::count_if(resident.begin(), resident.end(), [](unsigned char c) { return (c & 1) != 0; }) *
         static_cast<int64_t>(page);
}

ScratchUse::ScratchUse(Scratch* scratch) : previous_(entered) { entered = scratch->base_; }

ScratchUse::~ScratchUse() { entered = previous_; }

}  // namespace shampoo::blas

#ifndef SHAMPOO_SYSTEM_BLAS
// The linker redirects OpenBLAS's calls of blas_memory_alloc and blas_memory_free to these two functions.
extern "C" void* __wrap_blas_memory_alloc(int) {  // NOLINT(bugprone-reserved-identifier)
  using namespace shampoo::blas;
  if (entered != nullptr && !in_use) {
    in_use = true;
    return entered;
  }
  unplanned.fetch_add(1);
  void* base = Reserve();
  // OpenBLAS does not check the result, and LAPACK cannot report an error.
  if (base == nullptr) std::abort();
  return base;
}

extern "C" void __wrap_blas_memory_free(void* buffer) {  // NOLINT(bugprone-reserved-identifier)
  using namespace shampoo::blas;
  if (buffer == entered) {
    in_use = false;
  } else {
    munmap(buffer, kBufferBytes);
  }
}
#endif
