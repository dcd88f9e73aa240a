// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace bench {

// Limits for each number of threads.
using Machines = std::map<int, Machine>;

// Prints the library and the processor, and a note if the library cannot measure the parts of steps.
void PrintLibrary(bool parts_wanted);
// Prints the limits for each number of threads. when: such as "at start".
void PrintMachines(const char* when, const Machines& machines);

// Prints the head of the table, and a row with a line for each part of the step.
void PrintHead(const std::vector<int64_t>& frequencies);
void PrintRow(const Row& row, const Machine& machine, const std::vector<int64_t>& frequencies);

}  // namespace bench
