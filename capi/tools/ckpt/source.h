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

// The checkpoint that a path of the command line is of.
struct Source {
  std::string path;    // of its index
  int64_t number = 0;  // 0: the index has a name of its own
  // Where a directory was given, the numbers of all that it has, rising.
  std::vector<int64_t> complete;
  std::vector<int64_t> unfinished;
};
Status Locate(const std::string& path, Source* source);

// An index is read as often as it takes to have a part of its blocks at a time: those of a large job are many.

// All but its blocks; counts: how many each parameter has.
Status ReadParams(const Source& source, CheckpointIndex* params, std::vector<int64_t>* counts);
// With the blocks that are wanted. params: what was read before, which it must still be.
Status ReadBlocks(const Source& source, const CheckpointIndex& params, const BlockFilter& wants,
                  CheckpointIndex* index);

// Parameters [first, last) of an index, which has their blocks and no others, in the order of their files.
struct Batch {
  const CheckpointIndex& index;
  int first;
  int last;
  size_t size() const { return static_cast<size_t>(last - first); }
  size_t PlaceOf(const StoredBlock& block) const { return static_cast<size_t>(block.param - first); }
  const StoredParam& ParamAt(size_t place) const { return index.params[static_cast<size_t>(first) + place]; }
};
using VisitBatch = std::function<Status(const Batch& batch)>;
// All of them, one batch after another.
Status ForEachBatch(const Source& source, const CheckpointIndex& params, const std::vector<int64_t>& counts,
                    const VisitBatch& visit);

void SortByPlace(std::vector<const StoredBlock*>* blocks);
// The blocks of each parameter of a batch, by place.
std::vector<std::vector<const StoredBlock*>> BlocksByParam(const Batch& batch);

}  // namespace shampoo::ckpt
