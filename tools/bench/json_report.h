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
//   program     "shampoo_bench"
//   build_info  the object that shampoo_build_info returns
//   processor   the name of the processor
//   machines    a list with the measured limits of the machine for each number of threads: gflops, memory_gb_per_s,
//               cache_gb_per_s
//   vectors     the vector instructions with which these limits were measured
//   rows        a list with an object for each Row. Its member mean_ms has a number for each precondition frequency of
//               `frequencies`.
//   simulation  a list with an object for each Simulation. Without --simulate, the list is empty.
// If path is empty, nothing is written.
void WriteJson(const std::string& path, const Machines& machines, const std::vector<Row>& rows,
               const std::vector<int64_t>& frequencies, const std::vector<Simulation>& simulations);

}  // namespace bench
