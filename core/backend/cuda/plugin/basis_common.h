// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/basis_kernels.h"
#include "core/backend/cuda/plugin/kernel_common.h"
#include "core/backend/cuda/plugin/matrix_tile.h"

// Types and functions that several of the kernels in basis_kernels.h use.
namespace shampoo::cuda {

// A tile of a block.
template <typename Real>
struct BasisTile {
  const DeviceBlock& block;
  const DeviceGroup& group;
  const BlockWork& work;
  const BasisWork& own;
  int64_t begin;  // the tile's first element is element `begin` of the block
  int64_t size;   // number of elements of the tile

  SHAMPOO_DEVICE BasisTile(const BasisArgs& args, const DeviceTile& tile)
      : block(args.tables.blocks[tile.block]),
        group(args.tables.groups[block.group]),
        work(args.tables.work[tile.block]),
        own(args.basis.work[tile.block]),
        begin(TileBegin(tile)),
        size(TileSize(block, tile)) {}

  // Both functions return the address of the tile's first element. buffer: one tensor for each block of the batch.
  template <typename Buffer>
  SHAMPOO_DEVICE Real* In(Buffer* buffer) const {
    return static_cast<Real*>(buffer) + block.at + begin;
  }
  SHAMPOO_DEVICE const Real* In(const void* buffer) const {
    return static_cast<const Real*>(buffer) + block.at + begin;
  }
};

// The factor matrix of one block of a run, for the dim of the run (BasisRun).
template <typename Real>
struct BasisFactor {
  int32_t index;  // of the block in the plan
  const DeviceBlock& block;
  int32_t dim;
  int64_t d;  // the length of the dim, which is the size of the matrix
  BasisMember& member;

  // item: the position of the block in the run.
  SHAMPOO_DEVICE BasisFactor(const BasisArgs& args, const BasisRun& run, int64_t item)
      : index(args.batch.blocks[run.first + item]),
        block(args.tables.blocks[index]),
        dim(run.dim),
        d(block.shape[run.dim]),
        member(args.basis.members[block.root_at[run.dim]]) {}

  SHAMPOO_DEVICE Real* In(void* buffer) const { return static_cast<Real*>(buffer) + block.matrix_at[dim]; }
  SHAMPOO_DEVICE const Real* In(const void* buffer) const {
    return static_cast<const Real*>(buffer) + block.matrix_at[dim];
  }
  SHAMPOO_DEVICE double* Sums(const BasisArgs& args) const { return args.basis.sums + 2 * block.vector_at[dim]; }
  SHAMPOO_DEVICE int32_t* Order(const BasisArgs& args) const { return args.basis.orders + block.vector_at[dim]; }
  SHAMPOO_DEVICE RootStatus& Status(const BasisArgs& args) const { return args.tables.roots[block.root_at[dim]]; }
};

// Returns the state kl_scale of dim k: for each column of the basis of this dim, the inverse square root of the
// column's eigenvalue. This state exists with factor_correction=kl, which method kl_shampoo always uses.
template <typename Real>
SHAMPOO_DEVICE inline Real* ScalesOf(const BasisArgs& args, const DeviceBlock& block, int k) {
  return reinterpret_cast<Real*>(args.tables.state_out + block.kl_scale[k].offset);
}

// Returns the product of the scales (ScalesOf) of an element. Each dim that has a factor matrix, except the dim
// `without`, contributes the scale at the element's index along the dim. without: -1 excludes no dim.
template <typename Real>
SHAMPOO_DEVICE inline Real ProductOfScales(const BasisArgs& args, const DeviceBlock& block, int64_t element,
                                           int without) {
  auto rest = static_cast<uint32_t>(element);  // a block has fewer than 2^31 elements
  Real product = 1;
  for (int k = block.order - 1; k >= 0; --k) {
    const auto d = static_cast<uint32_t>(block.shape[k]);
    if (k != without && block.factor[k].present()) product *= ScalesOf<Real>(args, block, k)[rest % d];
    rest /= d;
  }
  return product;
}

SHAMPOO_DEVICE inline bool IsSelected(const BasisArgs& args, int32_t block, const TaskSelection& selection) {
  return IsStepped(args.tables, block) && selection.Takes(args.tables.work[block].task);
}

// Calls work(row, column) for the elements of a tile of the lower triangle and of its mirror image in the upper
// triangle.
template <typename Work>
SHAMPOO_DEVICE inline void ForEachOfBoth(const Cta& cta, const MatrixTile& tile, const Work& work) {
  tile.ForEachLower(cta, work);
  tile.ForEachUpper(cta, work);
}

// Launches the kernel of Body<Real> (cta.h), where Real is the computation dtype of the batch. `args` and `arguments`
// initialize the members of the body.
template <template <typename> typename Body, typename... Arguments>
cudaError_t LaunchBasis(cudaStream_t stream, int64_t ctas, const BasisArgs& args, const Arguments&... arguments) {
  return LaunchReal<Body>(stream, args.computation, ctas, args, arguments...);
}

}  // namespace shampoo::cuda
