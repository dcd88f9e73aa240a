// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/block.h"

namespace shampoo {

struct Region;

// A series of runs of a slice. A slice consists of the elements of a block that one shard rank holds, packed in the
// order of the block. A run is a sequence of elements that are consecutive both in the block and in the buffer in which
// the rank holds its elements of the parameter. The runs of a series begin at equal distances, and all except the last
// one have the same length. With a short table of series, a device finds the place of an element without visiting all
// elements of the block.
struct RunSeries {
  // Indices of the first element of the series.
  int64_t packed;                  // in the packed slice; the next series begins where this series ends
  int64_t dense;                   // in the row-major elements of the block
  int64_t local;                   // in the rank's buffer
  int64_t length;                  // number of elements of each run, except that the last run may be shorter
  int64_t dense_step, local_step;  // distances between the starts of successive runs
};

// Appends the series of the elements of a block that are in a region (see shard_layout.h). elements: the number of
// these elements.
void AppendSeries(const Block& block, const Region& region, int64_t elements, std::vector<RunSeries>* series);

}  // namespace shampoo
