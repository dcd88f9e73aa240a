// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// Bits of RoundHeader::flags.
inline constexpr uint32_t kFailureIsForwarded = 1;  // it is the failure of another rank, which has more detail
inline constexpr uint32_t kSkipsStep = 2;           // the rank wants the step to succeed and to change nothing
inline constexpr uint32_t kNeedsExactCheck = 4;     // the rank has a gradient that the owner of the block must check
inline constexpr uint32_t kRoundFlags = 7;

// What every rank sends in front of its payload. Ranks run on machines of one kind, so its bytes travel as they are.
struct RoundHeader {
  int32_t code;  // Code of the rank's failure; 0: none
  uint32_t flags;
  int64_t place;  // which optimizer of the communicator, and which round of its step: PlaceOfRound()
};

inline constexpr int64_t kMostRounds = int64_t{1} << 31;  // of a step

constexpr int64_t PlaceOfRound(int32_t optimizer, int64_t round) { return int64_t{optimizer} << 32 | round; }

}  // namespace shampoo
