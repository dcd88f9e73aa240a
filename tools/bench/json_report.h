// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/simulate.h"

namespace bench {

// Writes all results of a run as JSON. Times are in milliseconds, gflops are 1e9 flops per second.
//   build_info, processor, vectors
//   machines    a list: threads, gflops, memory_gb_per_s, cache_gb_per_s
//   rows        a list, one for each case and setting
//   simulation  a list, one for each case and block size; empty without --simulate
// If path is empty, nothing is written.
void WriteJson(const std::string& path, const Machines& machines, const std::vector<Row>& rows,
               const std::vector<int64_t>& frequencies, const std::vector<Simulation>& simulations);

}  // namespace bench
