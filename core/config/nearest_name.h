// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shampoo {

// Returns a name in lower case, with each - replaced by _, for comparisons that ignore case and treat - like _.
std::string FoldName(std::string_view name);

// Finds the candidate that is closest to a misspelled name, by edit distance.
class NearestName {
 public:
  explicit NearestName(std::string_view name) : name_(FoldName(name)) {}

  void Consider(const char* candidate);
  // Returns the closest of the candidates whose distance is at most 3 and at most half of the candidate's length, or
  // nullptr if there is none.
  const char* found() const { return found_; }

 private:
  std::string name_;
  const char* found_ = nullptr;
  size_t least_ = 4;  // the distance of found_; before a candidate is found, 1 above the limit
};

}  // namespace shampoo
