// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

// Returns how many processors the calling thread may use, at least 1: the processors of its affinity mask, limited by
// the CPU quota of the control group of the process.
int UsableCpus();

// Returns ceil(quota / period) from the text of a cgroup v2 cpu.max file, such as "150000 100000". Returns 0 if there
// is no limit, as in "max 100000".
int CpusFromQuota(const std::string& cpu_max);

}  // namespace shampoo
