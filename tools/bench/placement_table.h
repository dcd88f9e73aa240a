// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace bench {

// Prints a table to stdout as Markdown. Columns are as wide as their heads, and at least as wide as "21.0 MB", so that
// the table is readable on a terminal.
class Table {
 public:
  explicit Table(const std::vector<std::string>& heads);
  void Add(const std::vector<std::string>& cells) const;
  void End() const;

 private:
  std::vector<int> widths_;
};

std::string NumberText(double value);  // "0.12", "1.23", "12.3", "123", "1234": two decimals at most
std::string BytesText(double bytes);   // "21.0 MB"

}  // namespace bench
