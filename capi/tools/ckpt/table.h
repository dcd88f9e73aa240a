// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shampoo::ckpt {

// A table of text. Each column is as wide as its longest cell.
class Table {
 public:
  enum class Align { kLeft, kRight };
  void AddColumn(const std::string& title, Align align);
  void AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Returns the titles and the rows as lines of text. indent: the beginning of each line.
  std::string Text(const std::string& indent = "") const;

 private:
  std::vector<Align> aligns_;
  std::vector<std::string> titles_;
  std::vector<std::vector<std::string>> rows_;
};

// Formats a number with at most six significant digits, in the same way in every locale: "0.0123457", "1.5e-08", "nan".
std::string NumberText(double number);

}  // namespace shampoo::ckpt
