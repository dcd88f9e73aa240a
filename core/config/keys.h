// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/config/settings.h"

namespace shampoo {

enum class KeyType { kF64, kI64, kBool, kChoice, kDtype, kList, kText };
// Whether a key has one value for the whole optimizer or one for each group.
enum class Scope { kOptimizer = 0, kGroup = 1 };

// A set of methods. Bit m is set if the set contains the Method whose value is m.
using MethodSet = uint32_t;
template <typename... Methods>
constexpr MethodSet SetOf(Methods... methods) {
  return (... | (MethodSet{1} << static_cast<int>(methods)));
}
inline constexpr MethodSet kAllMethods = ~MethodSet{0};

// One row of the table of keys. Parsing, checks, error messages, the description in the C API and docs/keys.md are all
// derived from the table.
struct Key {
  const char* name;
  KeyType type;
  const char* default_text;
  const char* doc;
  Scope scope = Scope::kGroup;
  MethodSet methods = kAllMethods;  // the methods that read the key
  const char* off_text = nullptr;   // a value that may be set although the method does not read the key
  bool for_replay = false;          // exists only to reproduce other implementations

  // The range of a number. least_open: `least` is not in the range. most_open: `most` is not in the range. NaN and
  // infinity are outside of every range.
  double least = -std::numeric_limits<double>::max();
  double most = std::numeric_limits<double>::max();
  bool least_open = false;
  bool most_open = false;

  // kChoice, kDtype and kText: the allowed names. The names of a kChoice key are in the order of the values of its
  // enum.
  std::span<const char* const> choices = {};

  // How the value is stored in Settings: the type of the key selects which one of these pointers is set. For the key
  // `preset` and for keys of type kList, no pointer is set.
  double Settings::*number = nullptr;
  int64_t Settings::*integer = nullptr;
  bool Settings::*flag = nullptr;
  std::optional<Dtype> Settings::*dtype = nullptr;
  bool (*parse)(std::string_view text, Settings* settings, std::string* canonical) = nullptr;  // kText
  void (*choose)(Settings* settings, int64_t choice) = nullptr;  // kChoice: stores the enumerator with this index

  bool changeable = false;  // shampoo_optimizer_set() may change the value
  bool arithmetic = false;  // a step rounds the value to the computation dtype (CheckArithmetic)
};

std::span<const Key> Keys();
// Returns whether the grafting method with this name has a second moment. Returns false for an unknown name.
bool GraftingHasMoment(std::string_view name);
const Key* FindKey(std::string_view name);  // returns nullptr if there is no such key
int IndexOf(const Key& key);                // in Keys()
bool Reads(Method method, const Key& key);
const char* NameOf(Method method);
std::string MethodNames(const Key& key);  // the methods that read the key: "adam, rmsprop"
// Returns the description of a key. If only some methods read the key, the description lists these methods.
const std::string& DocText(const Key& key);
const char* TypeName(KeyType type);            // "f64", "i64", "bool", "choice", "dtype", "list", "text"
const std::string& RangeText(const Key& key);  // "[0, 1)", "> 0", "none, sgd, ..."

// A value that has passed the check of its key.
struct Value {
  double number = 0;     // kF64
  int64_t integer = 0;   // kI64, kBool; kChoice and kDtype: the index in Key::choices
  bool is_auto = false;  // the value is "auto"
  std::string text;      // the value as text, in canonical form
};

// Check a value for a key and convert it to a Value.
Status ParseValue(const Key& key, std::string_view text, Value* value);
Status MakeNumber(const Key& key, double number, Value* value);
Status MakeInteger(const Key& key, int64_t integer, Value* value);
// Checks that a number is in the range of a key.
Status CheckNumber(const Key& key, double number);
// Returns the error for a call that sets a key that the method does not read.
Status RejectUnread(Method method, const Key& key, const std::string& value);
// Checks a number of a key whose field `arithmetic` is true. Returns an error if the number overflows the computation
// dtype. A number that is not 0 but rounds to 0 is also an error, unless 0 is the smallest allowed value.
Status CheckArithmetic(const Key& key, double number, Dtype computation);
// Parses the elements of a list key.
Status ParseList(const Key& key, std::string_view text, std::vector<int64_t>* elements);

}  // namespace shampoo
