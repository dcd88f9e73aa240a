// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/host_device.h"
#include "core/config/settings.h"

// The hyper-parameters that a step can read from memory of the caller (shampoo_optimizer_bind_scalar).
namespace shampoo {

// The numbers of the keys, in the order of kBindableNames. kBindableKeys is the count of these keys.
enum : int { kBoundLr, kBoundBeta1, kBoundWeightDecay, kBoundGradientScale, kBindableKeys };
inline constexpr const char* kBindableNames = "lr, beta1, weight_decay or gradient_scale";

// Returns the name of the key with this number.
constexpr const char* BindableName(int key) {
  constexpr const char* kNames[kBindableKeys] = {"lr", "beta1", "weight_decay", "gradient_scale"};
  return kNames[key];
}

// Returns the number of a key, or -1 if the key cannot be bound.
constexpr int BindableKey(std::string_view name) {
  for (int key = 0; key < kBindableKeys; ++key) {
    if (name == BindableName(key)) return key;
  }
  return -1;
}

// Returns the field that holds the value of a key: the value is settings.*BindableField(key).
SHAMPOO_HD constexpr double GroupSettings::*BindableField(int key) {
  switch (key) {
    case kBoundLr:
      return &GroupSettings::lr;
    case kBoundBeta1:
      return &GroupSettings::beta1;
    case kBoundWeightDecay:
      return &GroupSettings::weight_decay;
    default:
      return &GroupSettings::gradient_scale;
  }
}

// Returns whether a step can use this value of a key. narrowest: the narrowest computation dtype of the group's blocks.
SHAMPOO_HD constexpr bool IsUsable(int key, double value, Dtype narrowest) {
  if (key == kBoundBeta1) return value >= 0 && value < 1;
  const bool may_be_negative = key == kBoundGradientScale;
  return (may_be_negative || value >= 0) && FitOfScalar(value, narrowest, !may_be_negative) == ScalarFit::kFits;
}

}  // namespace shampoo
