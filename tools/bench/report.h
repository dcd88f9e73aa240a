// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace bench {

// The limits of the machine, by number of threads.
using Machines = std::map<int, Machine>;

// Prints the library and the processor. with_phases: whether to print a note if the library cannot measure phases.
void PrintLibrary(bool with_phases);
// Prints a line for each number of threads: `when`, such as "at start", and the limits of the machine.
void PrintMachines(const char* when, const Machines& machines);

// Prints the head of a table whose rows PrintRow() prints. frequencies: values of precondition_frequency; the table has
// a column for each, with the mean time per step.
void PrintHead(const std::vector<int64_t>& frequencies);
// Prints a row of the table. If the phases were measured, prints a line for each phase below the row.
void PrintRow(const Row& row, const Machine& machine, const std::vector<int64_t>& frequencies);

}  // namespace bench
