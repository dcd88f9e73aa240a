// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks which random numbers stochastic rounding uses for the elements of a block, and for the elements of a shard
// slice (the part of a block that one shard rank holds).
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <vector>

#include "core/backend/cpu/block_rounding.h"
#include "core/backend/cpu/slice_pass.h"
#include "core/base/convert.h"

namespace shampoo {
namespace {

constexpr uint64_t kSeed = 77;
constexpr int64_t kStep = 3;

std::vector<float> SomeValues(int64_t n) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(std::sin(static_cast<float>(i + 1)));
  return values;
}

constexpr int64_t kRows = 3;
constexpr int64_t kColumns = 21;
constexpr int64_t kElements = kRows * kColumns;
constexpr int64_t kRow = 25;  // elements in a row of the parameter

// A step of one block of a 4 x 25 parameter. The block consists of rows 1 to 3 and columns 1 to 21, counted from 0. One
// call of RandomBits() returns the random numbers for 8 consecutive elements of the parameter. The position of the
// first of them is a multiple of 8. Most rows of the block neither begin nor end at a multiple of 8.
struct RoundedStep {
  Settings settings;
  StepProgram program;
  Param param;
  Block block;

  RoundedStep() {
    settings.state_rounding = settings.param_rounding = Rounding::kStochastic;
    program.settings = &settings;
    program.rounding_seed = kSeed;
    program.t = kStep;
    param.desc.shape = Shape::Of({4, kRow});
    block.param = 2;
    block.index = 1;
    block.shape = Shape::Of({kRows, kColumns});
    block.elements = kElements;
    block.tensor_stride = {kRow, 1};
    block.tensor_offset = kRow + 1;
  }
  StepItem Item() const {
    return {
        .param = &param, .block = &block, .buffers = nullptr, .program = &program, .schedule = {}, .roots = nullptr};
  }
};

uint16_t ExpectedBits(float value, RoundedState state, int64_t place) {
  const auto at = static_cast<uint64_t>(place);
  return RoundToBf16(value, RandomOf(RandomBits({kSeed, state, 2, uint64_t{kStep}}, at >> 3), at));
}

TEST_CASE(
    "the parameter, the position in it, the kind of state and the step determine the bits of stochastic rounding") {
  const std::vector<float> values = SomeValues(kElements);
  RoundedStep whole;
  // The same block on a rank that holds only rows 1 to 3 of the parameter.
  RoundedStep of_rows;
  of_rows.param.desc.form = ShardForm::kRectangle;
  of_rows.param.desc.local_offset = Shape::Of({1, 0});
  of_rows.param.desc.local_shape = Shape::Of({kRows, kRow});
  of_rows.block.piece_of_shard = true;
  of_rows.block.tensor_offset = 1;
  for (const RoundedStep* const step : {&whole, &of_rows}) {
    const StepItem item = step->Item();
    const struct {
      BlockRounding rounding;
      RoundedState state;
    } cases[] = {{BlockRounding::OfState(item, RoundedState::kMomentum), RoundedState::kMomentum},
                 {BlockRounding::OfParam(item), RoundedState::kParam}};
    for (const auto& [rounding, state] : cases) {
      for (int64_t first = 0; first < kElements; ++first) {
        std::vector<uint16_t> rounded(kElements);
        rounding.Store(values.data() + first, rounded.data(), Dtype::kBf16, first, kElements - first);
        std::vector<float> in_place(values.begin() + first, values.end());
        rounding.Round(Dtype::kBf16, in_place.data(), first, kElements - first);
        for (int64_t i = first; i < kElements; ++i) {
          const auto at = static_cast<size_t>(i - first);
          const uint16_t expected =
              ExpectedBits(values[static_cast<size_t>(i)], state, kRow + 1 + i / kColumns * kRow + i % kColumns);
          CHECK(rounded[at] == expected);
          CHECK(in_place[at] == Bf16ToFloat(expected));
        }
      }
    }
  }
}

TEST_CASE("stochastic rounding applies only to bfloat16, and only if param_rounding or state_rounding selects it") {
  const std::vector<float> values = SomeValues(kElements);
  RoundedStep step;
  const auto check = [&](const BlockRounding& rounding, Dtype dtype) {
    uint16_t rounded[kElements];
    uint16_t nearest[kElements];
    rounding.Store(values.data(), rounded, dtype, 0, kElements);
    Narrow(values.data(), nearest, dtype, kElements);
    for (int64_t i = 0; i < kElements; ++i) CHECK(rounded[i] == nearest[i]);
  };
  check(BlockRounding::OfParam(step.Item()), Dtype::kF16);
  step.settings.param_rounding = Rounding::kNearest;
  check(BlockRounding::OfParam(step.Item()), Dtype::kBf16);
  step.settings.param_rounding = Rounding::kStochastic;
  step.settings.state_rounding = Rounding::kNearest;
  check(BlockRounding::OfState(step.Item(), RoundedState::kMomentum), Dtype::kBf16);
}

TEST_CASE(
    "a shard slice that another rank computed is rounded with the random numbers of its position in the parameter") {
  RoundedStep step;
  step.param.desc.shape = Shape::Of({40});
  step.param.desc.out_dtype = Dtype::kBf16;
  step.block.shape = Shape::Of({40});
  step.block.elements = 40;
  step.block.tensor_stride = step.block.stride = {1};
  step.block.tensor_offset = step.block.offset = 0;
  step.block.gathered = true;
  constexpr int64_t kFirst = 13;
  constexpr int64_t kCount = 21;
  std::vector<float> sent = SomeValues(kCount);
  const std::vector<float> held(kCount);
  std::vector<uint16_t> out(kCount);
  const Buffers buffers{held.data(), nullptr, out.data(), nullptr};
  char update_skipped = 0;
  SliceItem delivered{step.Item(), {}};
  delivered.item.buffers = &buffers;
  delivered.item.update_skipped = &update_skipped;
  delivered.item.exchange = reinterpret_cast<char*>(sent.data());
  delivered.item.exchange_params = true;
  const Region region = Region::Interval(kFirst, kCount, 40);
  delivered.slice = {&step.block, &region, kCount};
  for (const int64_t middle : {int64_t{0}, int64_t{6}}) {
    CAPTURE(middle);
    std::fill(out.begin(), out.end(), uint16_t{0});
    if (middle > 0) ApplySlice(delivered, {0, middle});
    ApplySlice(delivered, {middle, kCount});
    for (int64_t i = 0; i < kCount; ++i) {
      const auto at = static_cast<size_t>(i);
      CHECK(out[at] == ExpectedBits(sent[at], RoundedState::kParam, kFirst + i));
    }
  }
}

}  // namespace
}  // namespace shampoo
