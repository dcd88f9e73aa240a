// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/status.h"

namespace shampoo::blas {

// What calls of BLAS touch of a Scratch.
//
// A product packs a panel of its first operand at the beginning of the scratch memory, and one of its second operand
// behind the room for the largest first panel, which is up to 2 MiB: another place for each kernel and element. Of
// small blocks only the panels count, which have holes between them.
class ScratchExtent {
 public:
  // Products of d x d and d x wide matrices and of their transposes, and eigenproblems of order d.
  void Add(int64_t d, int64_t wide, size_t element_bytes);

  // Bytes that Scratch::Create populates.
  int64_t bytes() const;

 private:
  friend class Scratch;
  bool apart() const;
  int64_t panels() const { return 1 + (single_ ? 1 : 0) + (double_ ? 1 : 0); }

  int64_t whole_ = 0;  // from the beginning, the holes among them
  int64_t panel_ = 0;  // the largest
  bool single_ = false;
  bool double_ = false;
};

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

  // Reserves what OpenBLAS may ever use (address space only) and populates the extent.
  static Status Create(const ScratchExtent& extent, Scratch* out);

  // Bytes of the reservation that are resident now: for tests.
  int64_t ResidentBytes() const;

 private:
  friend class ScratchUse;
  void PopulatePanels(const ScratchExtent& extent);
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
