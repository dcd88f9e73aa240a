// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "core/base/host_device.h"

// Stochastic rounding to bfloat16 (the keys state_rounding and param_rounding). The random numbers come from a
// counter-based generator, Philox4x32-10 (Salmon et al., SC 2011). Its counter consists of the parameter, the
// position of the element, the state and the step, so the random numbers do not depend on threads, ranks, shards or a
// resume.
namespace shampoo {

// Identifies the array that is rounded. The numbers of these enumerators are part of the generator's counter.
enum class RoundedState : uint32_t {
  kParam = 0,
  kFilteredGrad = 1,
  kSecondMoment = 2,  // V of an elementwise method that updates the block
  kMomentum = 3,
  kGrafting = 4,  // V of the grafting method
  kSoapSecondMoment = 5,
  kIterate = 6,
  kWeightEma = 7,
  kMuonMoment = 8,
  // The states of SOAP when a refresh converts them to the new eigenbases.
  kRotatedFilteredGrad = 9,
  kRotatedSecondMoment = 10,
};

// RoundedMomentOf() returns the RoundedState of the second moment V of a block. RoundedAverageOf() returns the
// RoundedState of the average (weight_ema) or the iterate (averaging) of a block. The block is a Block or a
// DeviceBlock.
template <typename AnyBlock>
constexpr RoundedState RoundedMomentOf(const AnyBlock& block) {
  if (!block.second_moment.present()) return RoundedState::kGrafting;
  return block.is_rotated() ? RoundedState::kSoapSecondMoment : RoundedState::kSecondMoment;
}
template <typename AnyBlock>
constexpr RoundedState RoundedAverageOf(const AnyBlock& block) {
  return block.ema_offset.present() ? RoundedState::kWeightEma : RoundedState::kIterate;
}

// Identifies the random numbers of one state of one parameter in one step.
struct RoundingKey {
  uint64_t seed = 0;
  RoundedState state = RoundedState::kParam;
  uint32_t param = 0;  // the index of the parameter in the plan
  uint64_t step = 0;   // the step of the group
};

// Input or output of the generator: a counter, or 128 random bits.
struct PhiloxBlock {
  uint32_t word[4];
};

SHAMPOO_HD constexpr PhiloxBlock Philox4x32(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter.word[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// Returns the random bits of elements 8 * group to 8 * group + 7 of a parameter, 16 bits for each, in order. `group` is
// the index of these eight elements, not of a group of parameters.
SHAMPOO_HD constexpr PhiloxBlock RandomBits(const RoundingKey& key, uint64_t group) {
  const PhiloxBlock counter = {{static_cast<uint32_t>(group),
                                static_cast<uint32_t>(group >> 32 & 0xFFFFFF) | static_cast<uint32_t>(key.state) << 24,
                                key.param, static_cast<uint32_t>(key.step)}};
  return Philox4x32(counter, static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32));
}

// Returns the 16 random bits of element i of a parameter. bits: the random bits of the eight elements from
// i / 8 * 8 to i / 8 * 8 + 7.
SHAMPOO_HD constexpr uint32_t RandomOf(const PhiloxBlock& bits, uint64_t i) {
  return bits.word[i >> 1 & 3] >> (16 * (i & 1)) & 0xFFFF;
}

// Rounds to one of the two neighboring bfloat16 numbers. The probability of rounding away from zero is the distance to
// the neighbor that is closer to zero, divided by the distance between the neighbors. random: 16 random bits. A number
// that bfloat16 represents stays the same, and a finite number stays finite.
SHAMPOO_HD constexpr uint16_t RoundToBf16(float value, uint32_t random) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x7F800000) {  // infinity or NaN, which stays NaN
    return static_cast<uint16_t>(bits >> 16 | (magnitude > 0x7F800000 ? 0x40 : 0));
  }
  const uint32_t rounded = (magnitude + random) >> 16;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | (rounded < 0x7F7F ? rounded : 0x7F7F));
}

// Rounds one element. position: the index of the element in the flattened parameter.
SHAMPOO_HD constexpr uint16_t RoundToBf16At(const RoundingKey& key, int64_t position, float value) {
  const auto at = static_cast<uint64_t>(position);
  return RoundToBf16(value, RandomOf(RandomBits(key, at >> 3), at));
}

}  // namespace shampoo
