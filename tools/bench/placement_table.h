// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace bench {

// Prints a table to stdout as Markdown. Columns are as wide as their heads, so that it is readable on a terminal.
class Table {
 public:
  explicit Table(const std::vector<std::string>& heads);
  void Add(const std::vector<std::string>& cells) const;
  void End() const;

 private:
  std::vector<int> widths_;
};

std::string NumberText(double value);  // three digits
std::string BytesText(double bytes);   // "21.0 MB"

}  // namespace bench
