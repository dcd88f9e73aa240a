// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace bench {

// Runs work(thread) on several threads in parallel, `runs` times. A run begins when the first thread starts its work
// and ends when the last thread has finished. Returns the seconds of the shortest run. In the first half of the runs,
// the operating system chooses processors. It may put two threads on one processor while other programs are busy. In
// the second half, each thread is pinned to a processor, and threads share a processor only if there are more threads
// than processors.
double ShortestParallelRun(int threads, int runs, const std::function<void(int)>& work);

}  // namespace bench
