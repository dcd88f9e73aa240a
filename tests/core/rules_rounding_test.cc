// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares stochastic rounding with recorded random bits and results. Compares the generator of the random bits with
// known answers of the library Random123. Checks that the mean of rounded numbers is close to the exact number.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/convert.h"
#include "core/rules/rounding.h"

namespace shampoo {
namespace {

using nlohmann::json;

json Recorded() {
  std::ifstream file(SHAMPOO_GOLDEN_DIR "/stochastic_rounding/bf16.json");
  REQUIRE(file.good());
  return json::parse(file);
}

uint32_t Hex(const json& text) { return static_cast<uint32_t>(std::stoul(text.get<std::string>(), nullptr, 16)); }
uint64_t Number(const json& text) { return std::stoull(text.get<std::string>()); }

RoundingKey KeyOf(const json& vector, uint64_t step) {
  return {Number(vector.at("seed")), static_cast<RoundedState>(vector.at("state").get<uint32_t>()),
          vector.at("parameter").get<uint32_t>(), step};
}

TEST_CASE("the generator of stochastic rounding gives the known answers of the library Random123") {
  const json answers = Recorded().at("philox_known_answers");
  CHECK(answers.size() == 3);
  for (const json& answer : answers) {
    PhiloxBlock counter{};
    for (size_t i = 0; i < 4; ++i) counter.word[i] = Hex(answer.at("counter")[i]);
    const PhiloxBlock output = Philox4x32(counter, Hex(answer.at("key")[0]), Hex(answer.at("key")[1]));
    for (size_t i = 0; i < 4; ++i) CHECK(output.word[i] == Hex(answer.at("output")[i]));
  }
}

TEST_CASE("random bits are as recorded, and rounding with these bits gives the recorded numbers") {
  size_t checked = 0;
  const json vectors = Recorded().at("vectors");
  for (const json& vector : vectors) {
    const RoundingKey key = KeyOf(vector, Number(vector.at("step")));
    for (size_t k = 0; k < vector.at("element").size(); ++k, ++checked) {
      CAPTURE(k);
      const uint64_t element = Number(vector.at("element")[k]);
      const uint32_t random = RandomOf(RandomBits(key, element >> 3), element);
      CHECK(random == Hex(vector.at("random16")[k]));
      const auto value = std::bit_cast<float>(Hex(vector.at("input_f32_bits")[k]));
      CHECK(RoundToBf16(value, random) == Hex(vector.at("output_bf16_bits")[k]));
    }
  }
  CHECK(checked == 84);
}

TEST_CASE(
    "over 4096 steps, numbers are rounded away from zero exactly as often as recorded, and nearly as often as the "
    "recorded probability predicts") {
  const json means = Recorded().at("mean");
  CHECK(means.size() == 3);
  for (const json& mean : means) {
    const auto value = mean.at("value").get<float>();
    const auto element = mean.at("element").get<uint64_t>();
    int away = 0;
    for (uint64_t step = 1; step <= 4096; ++step) {
      const uint32_t random = RandomOf(RandomBits(KeyOf(mean, step), element >> 3), element);
      const auto rounded = static_cast<double>(Bf16ToFloat(RoundToBf16(value, random)));
      CHECK((rounded == mean.at("lower").get<double>() || rounded == mean.at("upper").get<double>()));
      away += rounded == mean.at("upper").get<double>() ? 1 : 0;
    }
    CHECK(away == mean.at("rounded_away").get<int>());
    const auto probability = mean.at("probability").get<double>();
    CHECK(std::fabs(away - 4096 * probability) < 4 * std::sqrt(4096 * probability * (1 - probability)));
  }
}

TEST_CASE("over 4096 seeds, rounding is unbiased") {
  for (const float value : {1.001f, -3.7e-5f, 123.456f}) {
    double sum = 0;
    for (uint64_t seed = 0; seed < 4096; ++seed) {
      const RoundingKey key{seed, RoundedState::kSecondMoment, 2, 7};
      sum += static_cast<double>(Bf16ToFloat(RoundToBf16(value, RandomOf(RandomBits(key, 3), 29))));
    }
    const double exact = static_cast<double>(value);
    const double unit = std::ldexp(1, std::ilogb(exact) - 7);  // the distance between neighboring bfloat16 numbers
    // The standard deviation of one rounding error is at most unit / 2. The standard deviation of the mean of 4096
    // errors is at most unit / 2 / sqrt(4096). The bound is four times this value.
    CHECK(std::fabs(sum / 4096 - exact) < 4 * unit / 2 / std::sqrt(4096));
  }
}

TEST_CASE("rounding does not change a number that bfloat16 represents") {
  const float largest = Bf16ToFloat(0x7F7F);
  for (const float value : {0.0f, -0.0f, 1.0f, -1.5f, largest, std::numeric_limits<float>::infinity(), 0x1p-133f}) {
    for (const uint32_t random : {0u, 0x8000u, 0xFFFFu}) {
      CHECK(std::bit_cast<uint32_t>(Bf16ToFloat(RoundToBf16(value, random))) == std::bit_cast<uint32_t>(value));
    }
  }
}

TEST_CASE("random bits differ between elements, states, parameters, steps and seeds") {
  const RoundingKey key{1, RoundedState::kMomentum, 2, 3};
  const auto bits = [](const RoundingKey& of, uint64_t group) { return RandomBits(of, group).word[0]; };
  const uint32_t first = bits(key, 4);
  CHECK(first != bits(key, 5));
  CHECK(first != bits(key, 4 + (uint64_t{1} << 32)));
  CHECK(first != bits({uint64_t{1} << 32 | 1, key.state, 2, 3}, 4));
  CHECK(first != bits({2, key.state, 2, 3}, 4));
  CHECK(first != bits({1, RoundedState::kGrafting, 2, 3}, 4));
  CHECK(first != bits({1, key.state, 3, 3}, 4));
  CHECK(first != bits({1, key.state, 2, 4}, 4));
  const PhiloxBlock block = RandomBits(key, 4);
  for (uint64_t i = 0; i < 8; ++i) {
    for (uint64_t j = 0; j < i; ++j) CHECK(RandomOf(block, i) != RandomOf(block, j));
  }
}

}  // namespace
}  // namespace shampoo
