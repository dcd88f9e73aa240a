// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/blas/scratch.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <vector>

#include "core/base/huge_pages.h"
#include "core/base/round_up.h"

namespace shampoo::blas {
namespace {

// BUFFER_SIZE of OpenBLAS (common_x86_64.h, common_arm64.h): the block sizes of its products are computed from it.
constexpr size_t kBufferBytes = size_t{32} << 22;

// The scratch that this thread has entered, and whether its buffer is handed out. Initial-exec: in a host that loads
// the library by dlopen, every other kind of thread-local variable is allocated by its first use on a thread, in a
// step.
[[gnu::tls_model("initial-exec")]] thread_local void* entered = nullptr;
[[maybe_unused, gnu::tls_model("initial-exec")]] thread_local bool in_use = false;

std::atomic<int64_t> unplanned{0};

void* Reserve() {
  void* base = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return base == MAP_FAILED ? nullptr : base;
}

#ifdef SHAMPOO_SYSTEM_BLAS
constexpr bool kNeeded = false;
#else
constexpr bool kNeeded = true;
#endif

}  // namespace

int64_t UnplannedScratchRequests() { return unplanned.load(); }

Scratch::Scratch(Scratch&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {}

Scratch::~Scratch() {
  if (base_ != nullptr) munmap(base_, kBufferBytes);
}

Status Scratch::Create(int64_t bytes, Scratch* out) {
  if (!kNeeded) return {};
  void* base = Reserve();
  if (base == nullptr) {
    return NoMemory("reserving ", kBufferBytes,
                    " bytes of address space for a thread's BLAS scratch failed: raise the "
                    "limit of the process's address space (ulimit -v) or set a smaller value of the key threads");
  }
  AdviseHugePages(base, static_cast<size_t>(bytes));
  // Written once here, so that no step meets a page fault.
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < static_cast<size_t>(bytes); at += page) static_cast<volatile char*>(base)[at] = 0;
  out->base_ = base;
  return {};
}

int64_t Scratch::Bytes(int64_t extent, size_t element_bytes) {
  if (!kNeeded) return 0;
  // A product packs a panel of P x Q elements of one operand and of Q x extent of the other. No kernel of OpenBLAS
  // 0.3.21 has a P x Q above 2 MiB or a Q above 512 (param.h).
  constexpr int64_t kLeftPanelBytes = int64_t{2} << 20;
  constexpr int64_t kDepth = 512;
  const int64_t wanted = kLeftPanelBytes + kDepth * (extent + 64) * static_cast<int64_t>(element_bytes);
  constexpr int64_t kPage = 4096;
  return std::min(RoundUp(wanted, kPage), static_cast<int64_t>(kBufferBytes));
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
// The names are the linker's: calls of blas_memory_alloc and blas_memory_free arrive here.
extern "C" void* __wrap_blas_memory_alloc(int) {  // NOLINT(bugprone-reserved-identifier)
  using namespace shampoo::blas;
  if (entered != nullptr && !in_use) {
    in_use = true;
    return entered;
  }
  unplanned.fetch_add(1);
  void* base = Reserve();
  // OpenBLAS does not look at the result, and LAPACK cannot report it: there is no way on.
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
