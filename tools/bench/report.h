// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace bench {

// By number of threads.
using Machines = std::map<int, Machine>;

// Library and processor; a word on the parts of steps where the library cannot tell them.
void PrintLibrary(bool parts_wanted);
// What each number of threads can do at most. when: "at start".
void PrintMachines(const char* when, const Machines& machines);

// The head of the table of rows, and a row of it with a line for each part.
void PrintHead(const std::vector<int64_t>& frequencies);
void PrintRow(const Row& row, const Machine& machine, const std::vector<int64_t>& frequencies);

}  // namespace bench
