// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/block.h"
#include "core/roots/eigen.h"
#include "core/step/program.h"

namespace shampoo {

// The caller's buffers of one parameter.
struct Buffers {
  const void* param = nullptr;
  const void* grad = nullptr;
  void* out = nullptr;
  void* copy = nullptr;
};

// One block's part of a step.
struct StepItem {
  const Param* param;
  const Block* block;
  const Buffers* buffers;
  const StepProgram* program;
};

// A root that could not be computed: the block goes on with the inverse that it had.
struct RootIncident {
  const Block* block;
  int dim;
  RootOutcome outcome;
};

struct StepReport {
  int64_t roots_computed = 0;
  std::vector<RootIncident> incidents;
  int64_t incidents_dropped = 0;  // counted, but not kept: there are too many
};

// A stretch of one parameter's gradient, for the check phase.
struct GradientStretch {
  const void* data;
  Dtype dtype;
  int64_t elements;
};

// What an optimizer does to numbers. Every operation gets whole lists, never one block at a time, so that a backend can
// batch equal shapes, spread blocks over threads, or fill a device.
class Backend {
 public:
  virtual ~Backend() = default;

  // The states of blocks that have not made a step: zeros, initial inverses, diagonal flags set.
  virtual void InitializeState(std::span<const Block> blocks, std::span<const Settings> groups, char* arena) = 0;

  // largest[i]: the largest magnitude in stretch i; NaN if it holds a NaN, infinity if an infinity.
  virtual void LargestMagnitudes(std::span<const GradientStretch> stretches, double* largest) = 0;
  // The first element of the stretch that is NaN or infinite, and its value; there must be one.
  virtual int64_t FindNonFinite(const GradientStretch& stretch, double* value) = 0;
  // |G|^2 of a block's gradient.
  virtual double SquaredNorm(const Param& param, const Block& block, const void* grad) = 0;

  // All of a step for the items, which are of distinct blocks, sorted by falling cost. Nothing in it can fail but
  // roots.
  virtual void Step(std::span<const StepItem> items, char* arena, StepReport* report) = 0;

  // The outputs of a parameter that takes no part in a step: itself, or updates of zero.
  virtual void PassThrough(const Param& param, const Buffers& buffers, Output output) = 0;
};

}  // namespace shampoo
