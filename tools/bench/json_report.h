// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/bench/report.h"
#include "tools/bench/simulate.h"

namespace bench {

// Writes all results of a run as a JSON object. Times are in milliseconds, and gflops are 1e9 flops per second.
// Members:
//   build_info  the object that shampoo_build_info returns
//   processor   the name of the processor
//   vectors     the vector instructions with which the limits were measured
//   machines    a list with the limits for each number of threads: gflops, memory_gb_per_s, cache_gb_per_s
//   rows        a list with an object for each row of the table
//   simulation  a list with an object for each case and block size; empty without --simulate
// If path is empty, nothing is written.
void WriteJson(const std::string& path, const Machines& machines, const std::vector<Row>& rows,
               const std::vector<int64_t>& frequencies, const std::vector<Simulation>& simulations);

}  // namespace bench
