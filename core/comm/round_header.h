// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

// Bits of RoundHeader::flags.
inline constexpr uint32_t kFailureIsForwarded = 1;  // the rank only forwards the failure of another rank
inline constexpr uint32_t kSkipsStep = 2;           // all ranks must skip the step, which then changes nothing
inline constexpr uint32_t kNeedsExactCheck = 4;     // the owners of blocks must make the exact check of gradients
inline constexpr uint32_t kExports = 8;             // the rank exports averages instead of making a step
inline constexpr uint32_t kRoundFlags = 15;         // all bits above

// The header that every rank sends in front of its payload in a round (an exchange between ranks, see round.h). All
// ranks run on the same kind of machine, so the header is sent as raw bytes.
struct RoundHeader {
  int32_t code;  // Code of the rank's failure; 0 if the rank has not failed
  uint32_t flags;
  int64_t place;  // PlaceOfRound()

  constexpr bool exports() const { return (flags & kExports) != 0; }
};

inline constexpr int64_t kMaxRounds = int64_t{1} << 31;  // the largest number of rounds in a step

// Encodes the number of the optimizer (Communicator::TakeOptimizerId()) and the number of the round within the step.
constexpr int64_t PlaceOfRound(int32_t optimizer, int64_t round) { return int64_t{optimizer} << 32 | round; }

}  // namespace shampoo
