// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "errors_test_util.h"

namespace shampoo_test {

inline size_t SizeOfDtype(int32_t dtype) { return dtype == SHAMPOO_F64 ? 8 : dtype == SHAMPOO_F32 ? 4 : 2; }

// An array of any floating-point dtype. Values are NaN, infinity, or multiples of 1/16 below 64, which are exact in
// each of the four dtypes. In float32 and float64 any value is allowed.
class Array {
 public:
  Array() = default;
  Array(int32_t dtype, size_t elements) : dtype_(dtype), bytes_(elements * SizeOfDtype(dtype)) {}

  void Set(size_t at, double value) {
    const auto single = static_cast<float>(value);
    uint32_t bits = 0;
    std::memcpy(&bits, &single, sizeof bits);
    const auto upper = static_cast<uint16_t>(bits >> 16);
    const uint16_t half = Half(value);
    const void* from = &half;
    if (dtype_ == SHAMPOO_F64) from = &value;
    if (dtype_ == SHAMPOO_F32) from = &single;
    if (dtype_ == SHAMPOO_BF16) from = &upper;
    std::memcpy(bytes_.data() + at * SizeOfDtype(dtype_), from, SizeOfDtype(dtype_));
  }
  void Fill(int seed) {
    for (size_t i = 0; i < size(); ++i) Set(i, (static_cast<int>(i) * 7 + seed * 5) % 31 / 16.0 - 0.9375);
  }
  size_t size() const { return bytes_.size() / SizeOfDtype(dtype_); }
  char* data() { return bytes_.data(); }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  static uint16_t Half(double value) {
    if (std::isnan(value)) return 0x7e01;
    const int sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isinf(value)) return static_cast<uint16_t>(sign | 0x7c00);
    if (value == 0) return static_cast<uint16_t>(sign);
    int exponent = 0;
    const double mantissa = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    return static_cast<uint16_t>(sign | (exponent + 14) << 10 | static_cast<int>((mantissa * 2 - 1) * 1024));
  }

  int32_t dtype_ = SHAMPOO_F32;
  std::vector<char> bytes_;
};

// An optimizer of the small plan, with memory for its two parameters.
struct SmallModel {
  static constexpr size_t kElements[2] = {30, 5};
  static constexpr const char* kNames[2] = {"weight", "bias"};

  explicit SmallModel(Values values = {}, int32_t dtype = SHAMPOO_F32) : plan(MakeSmallPlan(values, dtype)) {
    optimizer = MakeOptimizer(plan);
    int seed = 0;
    for (int p = 0; p < 2; ++p) {
      for (Array* array : {&param[p], &grad[p], &out[p], &copy[p]}) {
        *array = Array(dtype, kElements[p]);
        array->Fill(++seed);
      }
    }
  }

  shampoo_optimizer* get() const { return optimizer.get(); }
  shampoo_buffers Buffers(int p) {
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = param[p].data();
    buffers.grad = grad[p].data();
    buffers.out = out[p].data();
    buffers.copy = copy[p].data();
    return buffers;
  }
  void Bind() {
    const shampoo_buffers buffers[2] = {Buffers(0), Buffers(1)};
    REQUIRE_OK(shampoo_optimizer_bind(get(), 0, 2, buffers));
  }
  void FillGradients(int seed) {
    for (Array& array : grad) array.Fill(seed);
  }
  double Stat(const char* key) const {
    double value = -1;
    REQUIRE_OK(shampoo_optimizer_stat(get(), key, &value));
    return value;
  }
  // Returns everything that a step may write.
  std::vector<std::vector<char>> Everything() const {
    std::vector<std::vector<char>> all = ReadState(get());
    for (const auto* arrays : {param, out, copy}) {
      for (int p = 0; p < 2; ++p) all.push_back(arrays[p].bytes());
    }
    const std::string stats = Text(Stat("steps")) + " " + Text(Stat("root_computed")) + " " + Text(Stat("root_reused"));
    all.emplace_back(stats.begin(), stats.end());
    return all;
  }

  PlanPtr plan;
  OptimizerPtr optimizer;
  Array param[2], grad[2], out[2], copy[2];
};

}  // namespace shampoo_test
