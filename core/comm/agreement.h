// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/comm/communicator.h"

namespace shampoo {

// What a check that is made before anything is written says of that. It does not hold where other ranks have begun.
inline constexpr char kNothingChanged[] = "; nothing has changed";

// What ranks do to fail together, with the same error. They allocate and take some exchanges, so they are for create
// and for steps that fail anyway. Collective, all of them: every rank must come here at the same point.

inline constexpr size_t kTextBytes = 1024;
// Everybody's text, cut off before so many bytes.
Status GatherTexts(Communicator* comm, const std::string& own, std::vector<std::string>* texts);

// The text of a rank that has failed, or that it sent none.
std::string TextOfFailure(const Communicator& comm, int rank, const std::string& text);

// Everybody's number.
Status GatherNumbers(Communicator* comm, int64_t own, std::vector<int64_t>* numbers);

// Everybody's numbers, as many from each: rank r's are at [r * own.size(), ...).
Status GatherNumbers(Communicator* comm, std::span<const int64_t> own, std::vector<int64_t>* numbers);

// Of such numbers the first that is not the same on all ranks, and a rank that differs from most.
struct Difference {
  bool found = false;
  size_t index = 0;
  int rank = 0;
  int64_t value = 0;
  int64_t usual = 0;  // what most have, and the rank of the first of them
  int usual_rank = 0;
};
Difference FirstDifference(std::span<const int64_t> numbers, int world);

// The failure of the lowest of the ranks that failed, with its text, as the status of all of them; success if none did.
Status AgreeOnStatus(Communicator* comm, const Status& own);

// The failure of a rank that received different hashes and then finds no difference in what they were computed from.
Status NoDifferenceFound(Communicator* comm, const char* what);

// Fails on every rank if the lines differ between any of them: tells the first that does, of two ranks.
Status CompareLines(Communicator* comm, std::span<const std::string> lines);

}  // namespace shampoo
