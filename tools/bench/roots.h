// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace bench {

// Prints a table of inverse square roots in float32 by size: the times of the default method and of the method eigen,
// and the flop rate of the default method, compared with the rate of products of the same size. Times are processor
// times of this thread, the medians of at least min_runs runs. Runs of roots and of products alternate.
void MeasureRoots(int min_runs);

}  // namespace bench
