// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"

namespace shampoo::blas {

// The bytes of a Scratch that BLAS writes.
//
// A product packs a panel of its first operand at the beginning of the scratch memory. It packs a panel of its second
// operand after the space reserved for the largest first panel, which has up to 2 MiB. The offset of the second panel
// depends on the kernel and the element type. For small blocks, only the panels are populated, not the gaps between
// them.
class ScratchExtent {
 public:
  // Extends the extent for products of d x d and d x wide matrices and of their transposes, and for eigenproblems of
  // size d.
  void Add(int64_t d, int64_t wide, size_t element_bytes);

  // Returns the number of bytes that Scratch::Create populates.
  int64_t bytes() const;

 private:
  friend class Scratch;
  bool panels_are_separate() const;
  int64_t panels() const { return 1 + (single_ ? 1 : 0) + (double_ ? 1 : 0); }

  int64_t whole_ = 0;  // bytes from the beginning to the end of the last panel
  int64_t panel_ = 0;  // bytes of the largest panel
  bool single_ = false;
  bool double_ = false;
};

// Scratch memory for one thread's BLAS calls.
//
// The serial archive of OpenBLAS has one scratch allocator for all threads. Two threads in GEMM at the same time can
// get the same buffer, and then compute wrong results without an error. The linker replaces that allocator by our own
// (--wrap, cmake/blas.cmake), which returns the Scratch of the thread's innermost ScratchUse. With the system's BLAS, a
// Scratch has no memory and no effect.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  // Reserves the largest address space that OpenBLAS may use, and populates the extent.
  static Status Create(const ScratchExtent& extent, Scratch* out);

  // Returns how many bytes of the reservation are resident now. For tests.
  int64_t ResidentBytes() const;

 private:
  friend class ScratchUse;
  void PopulatePanels(const ScratchExtent& extent);
  void* base_ = nullptr;
};

// While this object exists, BLAS calls of this thread use the scratch memory.
class ScratchUse {
 public:
  explicit ScratchUse(Scratch* scratch);
  ~ScratchUse();
  ScratchUse(const ScratchUse&) = delete;
  ScratchUse& operator=(const ScratchUse&) = delete;

 private:
  void* previous_;
};

// Returns how many times, since the process started, BLAS has requested memory outside of a ScratchUse or beyond the
// one buffer of a Scratch. Each such request gets a new mapping: results are correct, but the request is slow. A test
// asserts that a step makes none.
int64_t UnplannedScratchRequests();

}  // namespace shampoo::blas
