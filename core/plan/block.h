// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/config/settings.h"
#include "core/plan/shape.h"
#include "core/plan/symmetric.h"

// The parameters of a plan, and the blocks into which they are divided.
namespace shampoo {

// The largest dim with a factor matrix. For an n x n matrix, the eigensolver's workspace has 2 n^2 elements, which
// LAPACK counts in 32-bit integers.
inline constexpr int64_t kLargestBlockDim = 32750;
// The largest number of elements in a block, because BLAS counts elements in 32-bit integers.
inline constexpr int64_t kLargestBlock = (int64_t{1} << 31) - 1;
// The largest number of blocks in a plan. A larger number indicates a mistake in max_preconditioner_dim.
inline constexpr int64_t kMaxBlocks = int64_t{1} << 20;

enum class ShardForm : int32_t { kWhole = 0, kFlat = 1, kRectangle = 2 };
enum class Role : int32_t { kHidden = 0, kVector = 1, kEmbedding = 2, kHead = 3 };
enum class Fan : int32_t { kOutIn = 0, kInOut = 1 };

// The caller's description of a parameter (shampoo_param_desc). CheckParamDesc() checks it.
struct ParamDesc {
  std::string name;
  Shape shape;  // of the whole parameter
  int stack_dims = 0;
  Role role = Role::kHidden;
  Fan fan = Fan::kOutIn;
  std::vector<int64_t> row_splits;  // sizes of the parts of each stacked tensor (TensorParts); empty: one part
  Dtype param_dtype = Dtype::kF32;
  Dtype grad_dtype = Dtype::kF32;
  Dtype out_dtype = Dtype::kF32;
  Dtype copy_dtype = Dtype::kF32;
  int group = 0;
  ShardForm form = ShardForm::kWhole;
  int64_t flat_offset = 0;  // only with kFlat, like flat_count
  int64_t flat_count = 0;
  Shape local_offset;  // only with kRectangle, like local_shape
  Shape local_shape;
};

// A parameter of a plan.
struct Param {
  ParamDesc desc;
  int64_t elements = 0;     // of the parameter or, with shards, of this rank's shard; 0: nothing to update
  int64_t first_block = 0;  // index in the plan, where the parameter's blocks are consecutive
  int64_t block_count = 0;
};

// The location of a state of a block, in bytes from the start of the arena. A state that does not exist has offset -1.
struct StateSlot {
  int64_t offset = -1;
  Dtype dtype = Dtype::kF32;
  SymmetricForm form = SymmetricForm::kNone;
  constexpr bool present() const { return offset >= 0; }
};

// A block: a strided view of a parameter, with states of its own.
struct Block {
  int param = 0;
  int index = 0;  // of the block within its parameter; part of the names of the block's states
  int group = 0;
  int owner = 0;                // replica rank
  int shard_owner = 0;          // shard rank
  bool piece_of_shard = false;  // the block belongs to a shard that is treated as a tensor (shard_mode=local)
  bool gathered = false;        // a step gathers the block's gradient and parameter from several shards

  bool is_preconditioned = true;   // false: no factor matrices
  bool is_orthogonalized = false;  // by method muon; shape then has two dims
  bool is_routed = false;          // in a group of method muon, method adam updates the block (RoutedSettings)
  DirectionMoment moment_of_direction = DirectionMoment::kNone;  // the key second_moment, if is_orthogonalized

  Shape shape;  // after merging and splitting; order >= 1, no empty dim
  int64_t elements = 0;
  // The block as a view of an array: strides and offset in elements. If the block is gathered, the array is the whole
  // parameter, otherwise the part of the parameter that this rank holds. The last stride is 1.
  std::array<int64_t, kMaxDims> tensor_stride{};
  int64_t tensor_offset = 0;
  // The block as a view of the memory that a step works on. If the block is gathered, the memory contains only this
  // block, otherwise it is the caller's buffer.
  std::array<int64_t, kMaxDims> stride{};
  int64_t offset = 0;
  int64_t global_offset = 0;  // of the first element, in the flattened global parameter

  Dtype computation = Dtype::kF32;
  Dtype root_dtype = Dtype::kF32;
  int64_t root = 0;   // r in the exponent -exponent_multiplier / r of the inverse roots; 0: the block has eigenbases
  int64_t phase = 0;  // with root_spread: selects the step of the refresh within an interval (SpreadOffset)

  // The size, as a matrix, of the whole tensor to which the block belongs: a stacked tensor or, with row_splits, a part
  // of one. The rows are the outputs (ParamDesc::fan). 0: the tensor has fewer than two dims.
  int64_t matrix_rows = 0;
  int64_t matrix_columns = 0;
  // With method muon or the key soap_post, a step orthogonalizes the direction as a row-major matrix with this number
  // of rows. The rows are the outputs or, if the outputs are the last dim (Fan::kInOut), the inputs. With soap_post,
  // the block is a whole tensor. 0: the direction is not orthogonalized.
  int64_t orthogonal_rows = 0;
  uint32_t skipped_dims = 0;  // bit k: dim k has no factor matrix

  std::array<StateSlot, kMaxDims> factor;    // F_k: d_k x d_k; only the lower triangle is used, even in form kSquare
  std::array<StateSlot, kMaxDims> inverse;   // X_k: d_k x d_k
  std::array<StateSlot, kMaxDims> snapshot;  // with root_async: a copy of F_k whose root is computed later, d_k x d_k
  StateSlot snapshot_step;                   // see RootTaskOf (core/rules/schedule.h)
  StateSlot diagonal;                        // per dim: whether F_k has been exactly diagonal in all steps so far
  std::array<StateSlot, kMaxDims> basis;     // Q_k: d_k x d_k, whose columns are eigenvectors of F_k
  std::array<StateSlot, kMaxDims> kl_scale;  // inverse square roots of the d_k estimated eigenvalues of F_k
  StateSlot gradient_count;                  // with soap and kl_shampoo: how many gradients the block has had
  StateSlot radius;                          // the norm that norm_control=hyperball maintains; 0: not known yet
  StateSlot filtered_grad;                   // E
  StateSlot direction_moment;                // second moment of the orthogonalized direction
  StateSlot second_moment;                   // V of SOAP or of an elementwise method that updates the block
  StateSlot grafting;                        // V of the grafting method
  StateSlot momentum;                        // M
  StateSlot iterate_offset;                  // with averaging: Z - W (core/rules/averages.h)
  StateSlot lr_sum;                          // with averaging=schedule_free: the sum of the weights of iterates
  StateSlot ema_offset;                      // with weight_ema: the average minus W
  int64_t state_offset = 0;                  // where the states begin in the arena
  int64_t state_bytes = 0;

  // With several ranks: the bucket in which the update is exchanged, the offset of the update in the owner's segment of
  // this bucket (not used if the block is gathered), and the dtype in which the update is exchanged.
  int bucket = 0;
  int64_t exchange_offset = 0;
  Dtype exchange_dtype = Dtype::kF32;

  // Returns the shape of direction_moment.
  Shape DirectionMomentShape() const {
    if (moment_of_direction == DirectionMoment::kElement) return shape;
    const int64_t longer = matrix_rows < matrix_columns ? matrix_columns : matrix_rows;
    return Shape::Of({moment_of_direction == DirectionMoment::kRow ? matrix_rows : longer});
  }
  int order() const { return shape.ndim; }
  // The second moment V; not present() if the block has none.
  constexpr const StateSlot& moment() const { return second_moment.present() ? second_moment : grafting; }
  // The state from which an export computes the average: the average minus W (weight_ema) or Z - W (averaging).
  constexpr const StateSlot& average_offset() const { return ema_offset.present() ? ema_offset : iterate_offset; }
  int factor_count() const { return is_preconditioned ? shape.ndim : 0; }
  bool has_factor(int k) const { return is_preconditioned && (skipped_dims >> k & 1) == 0; }
  // The number of dims with a factor matrix.
  int present_factors() const {
    int count = 0;
    for (int k = 0; k < factor_count(); ++k) count += has_factor(k) ? 1 : 0;
    return count;
  }
  // Whether E and V are stored in the coordinates of the eigenbases.
  constexpr bool is_rotated() const { return is_preconditioned && gradient_count.present(); }
  // Whether a step orthogonalizes the direction.
  constexpr bool has_orthogonal_direction() const { return orthogonal_rows > 0; }
  // Requires has_orthogonal_direction().
  constexpr int64_t orthogonal_columns() const { return elements / orthogonal_rows; }
};

constexpr const char* NameOf(Role role) {
  constexpr const char* kNames[] = {"hidden", "vector", "embedding", "head"};
  return kNames[static_cast<int32_t>(role)];
}

constexpr const char* NameOf(Fan fan) { return fan == Fan::kOutIn ? "out_in" : "in_out"; }

// Returns "<parameter>/<block>", the prefix of the names of a block's states.
inline std::string BlockName(const Param& param, const Block& block) { return Cat(param.desc.name, "/", block.index); }

}  // namespace shampoo
