// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace shampoo {

// Processors that this process may use: its affinity mask, cut by the CPU quota of its control group. At least 1.
int UsableCpus();

// ceil(quota / period) from the text of a cgroup v2 cpu.max file ("max 100000", "150000 100000"); 0: no limit.
int CpusFromQuota(const std::string& cpu_max);

}  // namespace shampoo
