// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

// Returns how many processors the calling thread may use, at least 1. The result is the number of processors in the
// thread's affinity mask, or the CPU quota of the process if the quota is smaller. The quota is the smallest quota of
// the process's control group and of all groups above it. If none of these groups has a quota in cgroup v2, the
// quota is that of the topmost directory of cgroup v1.
int UsableCpus();

// Returns a CPU quota in processors: ceil(quota / period), or 0 if there is no limit, as in "max 100000". cpu_max: the
// content of a file cpu.max of cgroup v2, which is "<quota> <period>", such as "150000 100000".
int CpusFromQuota(const std::string& cpu_max);

}  // namespace shampoo
