// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace bench {

// Returns the seconds from the first start to the last end of work(thread) on several threads at once, the shortest of
// `runs`. In the first half of the runs the system places the threads, and may put two on one processor if others are
// busy. In the second half, each thread is pinned to its own processor, which may share its core with another one.
double ShortestAtOnce(int threads, int runs, const std::function<void(int)>& work);

}  // namespace bench
