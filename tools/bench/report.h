// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace bench {

// Machines by number of threads.
using Machines = std::map<int, Machine>;

// Prints the library and the processor. with_phases: also prints a note if the library cannot measure phases of a step.
void PrintLibrary(bool with_phases);
// Prints the limits of the machine for each number of threads. when: a text such as "at start".
void PrintMachines(const char* when, const Machines& machines);

// Print the head of the table, and a row with a line for each phase.
void PrintHead(const std::vector<int64_t>& frequencies);
void PrintRow(const Row& row, const Machine& machine, const std::vector<int64_t>& frequencies);

}  // namespace bench
