// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan/slice_runs.h"

#include "core/plan/shard_layout.h"

namespace shampoo {

void AppendSeries(const Block& block, const Region& region, int64_t elements, std::vector<RunSeries>* series) {
  int64_t packed = 0;
  int64_t runs = 0;        // the number of runs in the last series
  bool is_closed = false;  // whether the last series ends in a shorter run, so that no run may follow in it
  ForEachRunIn(block, region, 0, elements, [&](int64_t dense, int64_t local, int64_t count) {
    const int64_t begin = packed;
    packed += count;
    if (runs > 0 && !is_closed) {
      RunSeries& last = series->back();
      if (runs == 1 && dense == last.dense + last.length && local == last.local + last.length) {
        last.length += count;
        return;
      }
      if (runs == 1) {
        last.dense_step = dense - last.dense;
        last.local_step = local - last.local;
      }
      const bool continues =
          dense == last.dense + runs * last.dense_step && local == last.local + runs * last.local_step;
      if (continues && count <= last.length) {
        ++runs;
        is_closed = count < last.length;
        return;
      }
    }
    series->push_back({begin, dense, local, count, 0, 0});
    runs = 1;
    is_closed = false;
  });
}

}  // namespace shampoo
