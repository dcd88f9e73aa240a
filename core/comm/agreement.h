// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/comm/communicator.h"

namespace shampoo {

// Part of the error message of a step that fails before it has written anything. FetchErrorOfReplicas() in
// core/step/replica_inputs.cc removes this part if another rank has begun to write.
inline constexpr char kNothingChanged[] = "; the step has changed nothing";

// Functions with which ranks agree on an error, so that all ranks fail together. Most of these functions allocate
// memory and make several exchanges, so they are for creating optimizers, for checkpoints, and for steps that fail
// anyway. Unless a comment says otherwise, they are collective: every rank calls them at the same point.

inline constexpr size_t kTextBytes = 1024;
// Gathers a text, such as an error message, from every rank in one exchange. A text is truncated to kTextBytes - 1
// bytes. buffer: kTextBytes bytes for each rank. Allocates nothing.
Status GatherTexts(Communicator* comm, std::string_view own, std::span<char> buffer);
// Returns the text of one rank from the buffer that GatherTexts() has filled. Not collective.
std::string TextIn(std::span<const char> buffer, int rank);

// Gathers a text from every rank, and allocates the buffer. If any rank cannot allocate its buffer, *texts is empty on
// all ranks.
Status GatherTexts(Communicator* comm, const std::string& own, std::vector<std::string>* texts);

// Returns the error message for a rank that failed: the name of the rank and its text. If the text is empty, the
// message says that the rank sent none. Not collective.
std::string FailureText(const Communicator& comm, int rank, const std::string& text);

// Gathers an integer from every rank.
Status AllGatherInts(Communicator* comm, int64_t own, std::vector<int64_t>* numbers);

// Gathers the same number of integers from every rank. The integers of rank r begin at r * own.size().
Status AllGatherInts(Communicator* comm, std::span<const int64_t> own, std::vector<int64_t>* numbers);

// The first integer that is not the same on all ranks, and a rank whose integer differs from the most frequent value.
struct Difference {
  bool found = false;
  size_t index = 0;    // the index of the integer among the integers of one rank
  int rank = 0;        // the lowest rank whose integer is not `usual`
  int64_t value = 0;   // the integer of `rank`
  int64_t usual = 0;   // the most frequent value
  int usual_rank = 0;  // the lowest rank that has the most frequent value
};
// Returns the first difference in the result of AllGatherInts(). Not collective.
Difference FirstDifference(std::span<const int64_t> numbers, int world);

// On every rank, returns the error of the lowest rank that failed, with the error message of that rank. Returns success
// if no rank failed.
Status AgreeOnStatus(Communicator* comm, const Status& own);

// Aborts the communicator and returns the error for this case: the hashes of the ranks differ, although the hashed
// values are the same. what: the hashed values, such as "the plans". Not collective.
Status NoDifferenceFound(Communicator* comm, const char* what);

// Compares lines, such as the lines that describe a plan, between ranks. If any line differs, fails on every rank. The
// error quotes the first line that differs, from rank 0 and from another rank.
Status CompareLines(Communicator* comm, std::span<const std::string> lines);

}  // namespace shampoo
