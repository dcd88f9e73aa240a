// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/comm/communicator.h"

namespace shampoo {

// The suffix of errors that are found before anything is written. It is removed if another rank has begun to write.
inline constexpr char kNothingChanged[] = "; nothing has changed";

// Functions by which ranks fail together, with the same error. They allocate and take several exchanges: they are for
// create, for checkpoints, and for steps that fail anyway. All are collective: every rank calls them at the same point.

inline constexpr size_t kTextBytes = 1024;
// Gathers a text from every rank, truncated to kTextBytes - 1 bytes.
Status GatherTexts(Communicator* comm, const std::string& own, std::vector<std::string>* texts);

// Returns the text of a rank that failed, or a text that says that it sent none.
std::string TextOfFailure(const Communicator& comm, int rank, const std::string& text);

// Gathers a number from every rank.
Status GatherNumbers(Communicator* comm, int64_t own, std::vector<int64_t>* numbers);

// Gathers the same count of numbers from every rank: those of rank r begin at r * own.size().
Status GatherNumbers(Communicator* comm, std::span<const int64_t> own, std::vector<int64_t>* numbers);

// The first number that is not the same on all ranks, and a rank that differs from most.
struct Difference {
  bool found = false;
  size_t index = 0;
  int rank = 0;
  int64_t value = 0;
  int64_t usual = 0;  // what most have, and the rank of the first of them
  int usual_rank = 0;
};
Difference FirstDifference(std::span<const int64_t> numbers, int world);

// Returns on every rank the failure of the lowest rank that failed, with its text; success if none did.
Status AgreeOnStatus(Communicator* comm, const Status& own);

// Returns the error of a rank that received different hashes and finds no difference in the values behind them.
Status NoDifferenceFound(Communicator* comm, const char* what);

// Fails on every rank if the lines differ between ranks; the error quotes the first line that does, of two ranks.
Status CompareLines(Communicator* comm, std::span<const std::string> lines);

}  // namespace shampoo
