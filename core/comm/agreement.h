// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/comm/communicator.h"

namespace shampoo {

// A suffix of errors that are found before anything is written. It is removed if another rank has begun to write.
inline constexpr char kNothingChanged[] = "; nothing has changed";

// Functions with which ranks agree on an error, so that all of them fail together. Most of them allocate memory and
// make several exchanges, so they are for creating optimizers, for checkpoints, and for steps that fail anyway. Unless
// a comment says otherwise, they are collective: every rank calls them at the same point.

inline constexpr size_t kTextBytes = 1024;
// Gathers a text from every rank in one exchange. A text is truncated to kTextBytes - 1 bytes. buffer: kTextBytes bytes
// for each rank. Allocates nothing. TextIn() returns the text of a rank.
Status GatherTexts(Communicator* comm, std::string_view own, std::span<char> buffer);
std::string TextIn(std::span<const char> buffer, int rank);

// Does the same, and allocates the buffer. If any rank cannot allocate its buffer, *texts is empty on all ranks.
Status GatherTexts(Communicator* comm, const std::string& own, std::vector<std::string>* texts);

// Returns the error message of a rank: the name of the rank and the text that the rank sent, or a note that it sent no
// text. Not collective.
std::string FailureText(const Communicator& comm, int rank, const std::string& text);

// Gathers an integer from every rank.
Status AllGatherInts(Communicator* comm, int64_t own, std::vector<int64_t>* numbers);

// Gathers the same number of integers from every rank. The integers of rank r begin at r * own.size().
Status AllGatherInts(Communicator* comm, std::span<const int64_t> own, std::vector<int64_t>* numbers);

// The first integer that is not the same on all ranks, and a rank whose integer differs from the most frequent value.
struct Difference {
  bool found = false;
  size_t index = 0;
  int rank = 0;
  int64_t value = 0;
  int64_t usual = 0;   // the most frequent value
  int usual_rank = 0;  // the first rank that has it
};
// Returns the first difference in the result of AllGatherInts(). Not collective.
Difference FirstDifference(std::span<const int64_t> numbers, int world);

// On every rank, returns the error of the lowest rank that failed, with the error message of that rank. Returns success
// if no rank failed.
Status AgreeOnStatus(Communicator* comm, const Status& own);

// Aborts the communicator and returns the error for this case: the hashes of the ranks differ, although the hashed
// values are the same. what: the hashed values, such as "the plans". Not collective.
Status NoDifferenceFound(Communicator* comm, const char* what);

// Fails on every rank if the lines differ between ranks. The error quotes the first such line of two ranks.
Status CompareLines(Communicator* comm, std::span<const std::string> lines);

}  // namespace shampoo
