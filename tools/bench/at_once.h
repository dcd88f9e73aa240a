// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace bench {

// Runs work(thread) on all threads at the same time. Returns the seconds from the first start to the last end, the
// shortest of `runs`. In the first half of the runs, the system places the threads, and may put two on one processor
// when others are busy. In the second half, each thread is pinned to its own processor; two of these may share a core.
double ShortestAtOnce(int threads, int runs, const std::function<void(int)>& work);

}  // namespace bench
