// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/checkpoint/index.h"

namespace shampoo::ckpt {

// The checkpoint that a path of the command line refers to.
struct Source {
  std::string path;    // path of the index file
  int64_t number = 0;  // number of the checkpoint, or 0 if the name of the index file has no number
  // If the path of the command line is a directory, the numbers of its complete and of its unfinished checkpoints, both
  // in ascending order. If the path is an index file, both lists are empty.
  std::vector<int64_t> complete;
  std::vector<int64_t> unfinished;
};
// Finds the checkpoint that `path` refers to. If `path` is a directory, this is its last complete checkpoint.
// Otherwise, `path` must be the index file of a checkpoint.
Status Locate(const std::string& path, Source* source);

// An index is read several times, each time with a subset of its blocks, because memory may be too small for all blocks
// of a large checkpoint. The outline of an index is the index without any block.

// Reads the outline. Sets *counts to the number of blocks of each parameter.
Status ReadOutline(const Source& source, CheckpointIndex* outline, std::vector<int64_t>* counts);
// Reads the index with the blocks for which wants() is true. Fails if the index has changed since the outline was read.
Status ReadBlocks(const Source& source, const CheckpointIndex& outline, const BlockFilter& wants,
                  CheckpointIndex* index);

// Parameters `first` to `last` - 1 of a checkpoint. `index` lists all parameters of the checkpoint, but contains only
// the blocks of parameters `first` to `last` - 1, in the sequence of the index file. The position of a parameter in the
// batch is counted from 0.
struct Batch {
  const CheckpointIndex& index;
  int first;
  int last;
  size_t size() const { return static_cast<size_t>(last - first); }
  // Returns the position of the block's parameter.
  size_t PositionOf(const StoredBlock& block) const { return static_cast<size_t>(block.param - first); }
  const StoredParam& ParamAt(size_t position) const { return index.params[static_cast<size_t>(first) + position]; }
};
using VisitBatch = std::function<Status(const Batch& batch)>;
// Divides the parameters into batches of consecutive parameters, and calls visit for one batch after another. counts:
// the result of ReadOutline(). Stops at the first error of visit, and returns it.
Status ForEachBatch(const Source& source, const CheckpointIndex& outline, const std::vector<int64_t>& counts,
                    const VisitBatch& visit);

// Sorts blocks of one parameter by the positions of their first elements.
void SortByPlace(std::vector<const StoredBlock*>* blocks);
// Returns the blocks of each parameter of a batch, sorted by SortByPlace(). Element i of the result is for the
// parameter at position i of the batch.
std::vector<std::vector<const StoredBlock*>> BlocksByParam(const Batch& batch);

}  // namespace shampoo::ckpt
