// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace bench {

// Seconds from the first start to the last end of work(thread) on so many threads at once; the shortest of `runs`. In
// the first half of them the system places the threads, and may put two on one processor where others are busy; in the
// second half each has its own, which may be two halves of one core.
double ShortestAtOnce(int threads, int runs, const std::function<void(int)>& work);

}  // namespace bench
