// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"

namespace shampoo::blas {

// The part of a Scratch that BLAS calls write to.
//
// OpenBLAS computes a product from copies of parts of its operands, called panels. The panel of the first operand is at
// the beginning of the scratch memory. OpenBLAS reserves at most 2 MiB for this panel. The panel of the second operand
// begins after the reserved bytes, at an offset that depends on the kernel and the element type. Scratch::Create()
// populates the extent: it makes the memory of the extent resident. If the panels are small, it leaves out the unused
// bytes between the panels.
class ScratchExtent {
 public:
  // Makes the extent sufficient for products of d x d and d x wide matrices, transposed or not, and for eigenproblems
  // of size d.
  void Add(int64_t d, int64_t wide, size_t element_bytes);

  // Returns the number of bytes that Scratch::Create() populates.
  int64_t bytes() const;

 private:
  friend class Scratch;
  bool panels_are_separate() const;
  int64_t panels() const { return 1 + (single_ ? 1 : 0) + (double_ ? 1 : 0); }

  int64_t whole_ = 0;    // bytes from the beginning to the end of the last panel
  int64_t panel_ = 0;    // bytes of the largest panel
  bool single_ = false;  // whether Add() was called for float
  bool double_ = false;  // whether Add() was called for double
};

// Scratch memory for one thread's BLAS calls.
//
// The serial build of OpenBLAS, which is linked into the library, has one scratch allocator for all threads. Two
// threads in GEMM at the same time can get the same buffer, and then compute wrong results without an error. The linker
// replaces that allocator (--wrap, cmake/blas.cmake) by functions in scratch.cc, which return the memory of the
// thread's innermost ScratchUse. If the library is built with the system's BLAS, a Scratch has no memory and no effect.
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  // Reserves all address space that OpenBLAS may use, and populates the pages of the extent.
  static Status Create(const ScratchExtent& extent, Scratch* out);

  // Returns how many bytes of the reserved address space are resident now, or -1 if that is unknown. For tests.
  int64_t ResidentBytes() const;

 private:
  friend class ScratchUse;
  void PopulatePanels(const ScratchExtent& extent);
  void* base_ = nullptr;
};

// While a ScratchUse exists, BLAS calls of the thread that created it use the memory of `scratch`.
class ScratchUse {
 public:
  explicit ScratchUse(Scratch* scratch);
  ~ScratchUse();
  ScratchUse(const ScratchUse&) = delete;
  ScratchUse& operator=(const ScratchUse&) = delete;

 private:
  void* previous_;
};

// Returns how many requests of BLAS for memory, since the process started, did not get the memory of a Scratch: the
// thread held no ScratchUse, or already used that memory. Each such request gets a new mapping: results are correct,
// but the request is slow. A test asserts that a step makes no such request.
int64_t UnplannedScratchRequests();

}  // namespace shampoo::blas
