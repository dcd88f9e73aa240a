// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"

namespace shampoo::blas {

// Scratch memory for one thread's calls of BLAS.
//
// OpenBLAS's serial archive has one scratch allocator for all threads: two threads that are inside a GEMM at the same
// time can get the same buffer, and the results are wrong without an error. The linker puts our own allocator in its
// place (--wrap, cmake/blas.cmake), which serves each thread from the Scratch that it has entered by a ScratchUse.
// With the system's BLAS all of this is empty.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  // Reserves what OpenBLAS may ever use (address space only) and populates the first `bytes` of it.
  static Status Create(int64_t bytes, Scratch* out);

  // What products and eigenproblems of extents up to `extent`, with elements of `element_bytes`, touch.
  static int64_t Bytes(int64_t extent, size_t element_bytes);

  // Bytes of the reservation that are resident now: for tests.
  int64_t ResidentBytes() const;

 private:
  friend class ScratchUse;
  void* base_ = nullptr;
};

// While it lives, this thread's BLAS calls use the scratch.
class ScratchUse {
 public:
  explicit ScratchUse(Scratch* scratch);
  ~ScratchUse();
  ScratchUse(const ScratchUse&) = delete;
  ScratchUse& operator=(const ScratchUse&) = delete;

 private:
  void* previous_;
};

// How often BLAS asked for memory outside of a ScratchUse or beyond the one buffer of a Scratch, since the process
// began. Served by a mapping of its own, so that results are right, but slowly: a test asserts that a step never does
// it.
int64_t UnplannedScratchRequests();

}  // namespace shampoo::blas
