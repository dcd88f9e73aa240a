// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/base/text.h"
#include "core/config/keys.h"
#include "core/config/nearest_name.h"

namespace shampoo {
namespace {

// Returns the allowed value that is closest to a misspelled value, such as adam for "AdamW" and f32 for "float32".
// Returns nullptr if none is close.
const char* NearestValue(const Key& key, std::string_view text) {
  if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
  const std::string folded = FoldName(text);
  NearestName nearest(text);
  if (std::string_view(key.default_text) == "auto" && folded == "auto") return "auto";
  if (key.type == KeyType::kBool) {
    for (const char* const value : {"true", "false"}) {
      if (folded == value) return value;
    }
  }
  if (key.type != KeyType::kChoice && key.type != KeyType::kDtype) return nullptr;
  constexpr std::pair<std::string_view, std::string_view> kLongNames[] = {
      {"float32", "f32"}, {"float64", "f64"}, {"float16", "f16"}, {"bfloat16", "bf16"}};
  for (const char* const choice : key.choices) {
    for (const auto& [long_name, short_name] : kLongNames) {
      if (folded == long_name && choice == short_name) return choice;
    }
    nearest.Consider(choice);
  }
  return nearest.found();
}

Status OutOfRange(const Key& key, std::string_view text) {
  const char* const nearest = NearestValue(key, text);
  return Invalid("key ", key.name, ": the value ", text, " is not allowed: expected ", TypeName(key.type), ": ",
                 RangeText(key), nearest == nullptr ? "" : Cat("; did you mean ", nearest, "?"));
}

constexpr int64_t kLargestExactInteger = int64_t{1} << 53;  // all integers up to 2^53 are exact as doubles

bool InRange(const Key& key, double number) {
  // The comparisons are false for NaN. The limits are finite, so infinity is also out of range.
  const bool above = key.least_open ? number > key.least : number >= key.least;
  const bool below = key.most_open ? number < key.most : number <= key.most;
  return above && below;
}

// Compares integers, because 2^53 and 2^53 + 1 are equal as doubles. The ranges of integer keys are closed intervals
// with integer limits.
bool InRange(const Key& key, int64_t integer) {
  return integer >= static_cast<int64_t>(key.least) && integer <= static_cast<int64_t>(key.most);
}

template <typename Number>
bool ParseWhole(std::string_view text, Number* number) {
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, *number);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

Status CheckNumber(const Key& key, double number) {
  return InRange(key, number) ? Status() : OutOfRange(key, Cat(number));
}

Status RejectUnread(Method method, const Key& key, const std::string& value) {
  return Invalid("key ", key.name, ": the value ", value, " is not allowed with method=", NameOf(method),
                 ", which does not read this key: expected this key only with method ", MethodNames(key),
                 "; leave the key out");
}

Status CheckArithmetic(const Key& key, double number, Dtype computation) {
  const bool may_underflow = key.least == 0 && !key.least_open;
  const ScalarFit fit = FitOfScalar(number, computation, may_underflow);
  if (fit == ScalarFit::kFits) return {};
  const bool vanishes = fit == ScalarFit::kUnderflows;
  return Invalid("key ", key.name, ": the value ", number,
                 " is not allowed with computation_dtype=", NameOf(computation), ": expected ",
                 vanishes ? "a magnitude of at least " : "a magnitude of at most ",
                 vanishes ? static_cast<double>(std::numeric_limits<float>::min()) : LargestFinite(computation),
                 ", or computation_dtype=f64");
}

Status Settings::CheckMoments(const char* beta2_key) const {
  struct Moment {
    const char* dtype_key;
    const char* decay_key;
    const char* what;  // for the error message
    std::optional<Dtype> dtype;
    double decay;
    bool is_elementwise = true;
  };
  const bool has_average = grafting == Grafting::kRmsprop || grafting == Grafting::kAdam;
  const bool in_eigenbasis = UsesEigenbasis(method);
  const bool has_own_moment = method != Method::kMuon || direction_moment == DirectionMoment::kElement;
  // The settings have no value for a dtype key that the method does not read.
  const Moment moments[] = {
      {"factor_dtype", in_eigenbasis ? "shampoo_beta" : "beta2", "the factor matrices", factor_dtype,
       in_eigenbasis ? shampoo_beta : beta2, false},
      {"grafting_dtype", "grafting_beta2", "the second moment", grafting_dtype, has_average ? grafting_beta2 : 0},
      {"second_moment_dtype", beta2_key, "the second moment", second_moment_dtype, has_own_moment ? beta2 : 1},
      {"average_dtype", averaging == Averaging::kGpa ? "average_eval" : "weight_ema",
       "the difference between average and parameter", average_dtype,
       averaging == Averaging::kGpa ? average_eval : weight_ema}};
  for (const Moment& moment : moments) {
    const bool is_narrow = moment.dtype == Dtype::kBf16 || moment.dtype == Dtype::kF16;
    // Rounding to nearest undoes a decrease that is smaller than half the distance between neighboring numbers.
    const int bits = moment.dtype == Dtype::kBf16 ? 8 : 11;
    if (allow_stalled_moments || !is_narrow || moment.decay == 1 || 1 - moment.decay >= std::ldexp(1.0, -bits))
      continue;
    const bool may_be_stochastic = moment.is_elementwise && moment.dtype == Dtype::kBf16;
    if (may_be_stochastic && state_rounding == Rounding::kStochastic) continue;
    return Invalid("keys ", moment.dtype_key, " and ", moment.decay_key, ": the values ", NameOf(*moment.dtype),
                   " and ", moment.decay, " are not allowed together, because rounding would undo every decay of ",
                   moment.what, ": expected ", moment.decay_key, " of at most ", 1 - std::ldexp(1.0, -bits),
                   may_be_stochastic ? ", or state_rounding=stochastic, or " : ", or ", moment.dtype_key, "=f32");
  }
  const bool rounds_average = average_dtype == Dtype::kBf16 && state_rounding == Rounding::kNearest;
  if (averaging == Averaging::kScheduleFree && rounds_average && !allow_stalled_moments) {
    return Invalid(
        "keys average_dtype and averaging: the values bf16 and schedule_free are not allowed together, because after a "
        "few hundred steps rounding would undo every change of the average: expected state_rounding=stochastic, or "
        "average_dtype=f32");
  }
  return {};
}

Status Settings::CheckArithmetic(Dtype computation) const {
  for (const Key& key : Keys()) {
    if (key.arithmetic) SHAMPOO_RETURN_IF_ERROR(shampoo::CheckArithmetic(key, this->*key.number, computation));
  }
  return {};
}

Status MakeNumber(const Key& key, double number, Value* value) {
  if (key.type != KeyType::kF64) {
    return Invalid("key ", key.name, " is of type ", TypeName(key.type), ", and a floating-point number (", number,
                   ") was given: use ",
                   key.type == KeyType::kI64 || key.type == KeyType::kBool
                       ? "shampoo_config_set_i64 or shampoo_config_set_str"
                       : "shampoo_config_set_str");
  }
  SHAMPOO_RETURN_IF_ERROR(CheckNumber(key, number));
  *value = {number, 0, false, Cat(number)};
  return {};
}

Status MakeInteger(const Key& key, int64_t integer, Value* value) {
  switch (key.type) {
    case KeyType::kF64:
      if (integer > kLargestExactInteger || integer < -kLargestExactInteger) {
        return Invalid(
            "key ", key.name, ": the integer ", integer,
            " is too large: expected a magnitude of at most 2^53, up to which doubles represent all integers; use "
            "shampoo_config_set_f64 for larger numbers");
      }
      return MakeNumber(key, static_cast<double>(integer), value);
    case KeyType::kI64:
      if (!InRange(key, integer)) return OutOfRange(key, Cat(integer));
      *value = {0, integer, false, Cat(integer)};
      return {};
    case KeyType::kBool:
      if (integer != 0 && integer != 1) return OutOfRange(key, Cat(integer));
      *value = {0, integer, false, integer == 1 ? "true" : "false"};
      return {};
    default:
      return Invalid("key ", key.name, " is of type ", TypeName(key.type), ", and an integer (", integer,
                     ") was given: use shampoo_config_set_str; allowed values: ", RangeText(key));
  }
}

Status ParseList(const Key& key, std::string_view text, std::vector<int64_t>* elements) {
  elements->clear();
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    int64_t element = 0;
    if (!ParseWhole(Trim(text.substr(start, comma - start)), &element) || !InRange(key, element)) {
      return OutOfRange(key, Cat("\"", text, "\""));
    }
    elements->push_back(element);
    start = comma + 1;
  }
  return {};
}

Status ParseValue(const Key& key, std::string_view untrimmed, Value* value) {
  const std::string_view text = Trim(untrimmed);
  if (text == "auto" && std::string_view(key.default_text) == "auto") {
    *value = {0, 0, true, "auto"};
    return {};
  }
  const std::string quoted = Cat("\"", untrimmed, "\"");
  switch (key.type) {
    case KeyType::kF64: {
      double number = 0;
      if (!ParseWhole(text, &number) || !InRange(key, number)) return OutOfRange(key, quoted);
      return MakeNumber(key, number, value);
    }
    case KeyType::kI64: {
      int64_t integer = 0;
      if (!ParseWhole(text, &integer) || !InRange(key, integer)) return OutOfRange(key, quoted);
      return MakeInteger(key, integer, value);
    }
    case KeyType::kBool:
      if (text == "true" || text == "1") return MakeInteger(key, 1, value);
      if (text == "false" || text == "0") return MakeInteger(key, 0, value);
      return OutOfRange(key, quoted);
    case KeyType::kChoice:
    case KeyType::kDtype:
      for (size_t i = 0; i < key.choices.size(); ++i) {
        if (text == key.choices[i]) {
          *value = {0, static_cast<int64_t>(i), false, std::string(text)};
          return {};
        }
      }
      return OutOfRange(key, quoted);
    case KeyType::kList: {
      std::vector<int64_t> elements;
      SHAMPOO_RETURN_IF_ERROR(ParseList(key, text, &elements));
      std::string canonical;
      for (int64_t element : elements) canonical += Cat(canonical.empty() ? "" : ",", element);
      *value = {0, 0, false, canonical};
      return {};
    }
    case KeyType::kText: {
      Settings unused;
      std::string canonical;
      if (!key.parse(text, &unused, &canonical)) return OutOfRange(key, quoted);
      *value = {0, 0, false, canonical};
      return {};
    }
  }
  return Internal("key ", key.name, " has no type");
}

}  // namespace shampoo
