// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace bench {

// Runs work(thread) on several threads at once, `runs` times. Returns the seconds from the first start to the last end,
// of the shortest run. In the first half of the runs the system places the threads, and may put two threads on one
// processor while other programs are busy. In the second half each thread is pinned to its own processor.
double ShortestAtOnce(int threads, int runs, const std::function<void(int)>& work);

}  // namespace bench
