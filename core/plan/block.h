// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/base/dtype.h"
#include "core/plan/shape.h"
#include "core/plan/symmetric.h"

namespace shampoo {

enum class ShardForm : int32_t { kWhole = 0, kFlat = 1, kRectangle = 2 };

// What a caller says of one parameter (shampoo_param_desc), checked.
struct ParamDesc {
  std::string name;
  Shape shape;  // global
  int stack_dims = 0;
  Dtype param_dtype = Dtype::kF32;
  Dtype grad_dtype = Dtype::kF32;
  Dtype out_dtype = Dtype::kF32;
  Dtype copy_dtype = Dtype::kF32;
  int group = 0;
  ShardForm form = ShardForm::kWhole;
  int64_t flat_offset = 0;  // kFlat
  int64_t flat_count = 0;
  Shape local_offset;  // kRectangle
  Shape local_shape;
};

// A parameter in the plan: its description and what follows from it.
struct Param {
  ParamDesc desc;
  int64_t elements = 0;  // of the caller's buffers: the whole parameter, or this rank's shard; 0: nothing to do here
  int64_t first_block = 0;
  int64_t block_count = 0;
};

// Where one state of a block lies in the arena: bytes from its start. Absent states have offset -1.
struct StateSlot {
  int64_t offset = -1;
  Dtype dtype = Dtype::kF32;
  SymmetricForm form = SymmetricForm::kNone;
  constexpr bool present() const { return offset >= 0; }
};

// One preconditioned block: a strided view of a parameter, with states of its own.
struct Block {
  int param = 0;
  int index = 0;  // within the parameter: the number in its states' names
  int group = 0;
  int owner = 0;  // replica rank
  int shard_owner = 0;
  bool piece_of_shard = false;
  bool gathered = false;  // from shards, for the step

  bool is_preconditioned = true;  // otherwise it has no factor matrices, and follows the grafting method alone

  Shape shape;  // after merging and splitting; order >= 1, no empty dim
  int64_t elements = 0;
  // In the tensor that it is a view of, in elements: the whole parameter, or what this rank holds. The last stride
  // is 1.
  std::array<int64_t, kMaxDims> tensor_stride{};
  int64_t tensor_offset = 0;
  // In the memory that a step works on: that tensor in the caller's buffer, or the block alone where it is gathered.
  std::array<int64_t, kMaxDims> stride{};
  int64_t offset = 0;
  int64_t global_offset = 0;  // first element in the flattened global parameter

  Dtype computation = Dtype::kF32;
  Dtype root_dtype = Dtype::kF32;
  int64_t root = 0;   // r of the exponent -exponent_multiplier / r
  int64_t phase = 0;  // steps by which its refreshes come later than the group's, with root_spread

  std::array<StateSlot, kMaxDims> factor;    // F_k: d_k x d_k; in a square the lower triangle counts
  std::array<StateSlot, kMaxDims> inverse;   // X_k: d_k x d_k
  std::array<StateSlot, kMaxDims> snapshot;  // with root_async: F_k of the last refresh, d_k x d_k
  StateSlot snapshot_step;                   // see RootTaskOf (core/rules/schedule.h)
  StateSlot diagonal;                        // one flag per dim: every factor so far had exact zeros off its diagonal
  StateSlot filtered_grad;                   // E
  StateSlot grafting;                        // V
  StateSlot momentum;                        // M
  int64_t state_offset = 0;                  // where all of them begin
  int64_t state_bytes = 0;

  // With several ranks: in which exchange its update travels, where in its owner's segment (if not gathered), and as
  // what.
  int bucket = 0;
  int64_t exchange_offset = 0;
  Dtype exchange_dtype = Dtype::kF32;

  int order() const { return shape.ndim; }
  int factor_count() const { return is_preconditioned ? shape.ndim : 0; }
};

// "<parameter>/<block>"
std::string BlockName(const Param& param, const Block& block);

}  // namespace shampoo
