// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace bench {

// Runs work(thread) in parallel on several threads, `runs` times. The time of a run is from the first start to the last
// end on any thread. Returns the time of the shortest run in seconds. In the first half of the runs, the system places
// the threads, and may put two threads on one processor while other programs are busy. In the second half, each thread
// is pinned to its own processor.
double ShortestParallelRun(int threads, int runs, const std::function<void(int)>& work);

}  // namespace bench
