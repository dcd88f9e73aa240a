// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/table.h"

#include <algorithm>
#include <charconv>

#include "core/base/text.h"

namespace shampoo::ckpt {
namespace {

// Returns the number of UTF-8 characters. Each character is assumed to take one column of a terminal.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

void Table::AddColumn(const std::string& title, Align align) {
  titles_.push_back(title);
  aligns_.push_back(align);
}

std::string Table::Text(const std::string& indent) const {
  std::vector<size_t> widths;
  for (const std::string& title : titles_) widths.push_back(WidthOf(title));
  for (const auto& row : rows_) {
    for (size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], WidthOf(row[k]));
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line = indent;
    for (size_t k = 0; k < row.size(); ++k) {
      const std::string filler(widths[k] - WidthOf(row[k]), ' ');
      line += k == 0 ? "" : "  ";
      line += aligns_[k] == Align::kLeft ? row[k] + filler : filler + row[k];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add(titles_);
  for (const auto& row : rows_) add(row);
  return text;
}

std::string NumberText(double number) {
  char digits[40];
  char* const end = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general, 6).ptr;
  return std::string(digits, end);
}

}  // namespace shampoo::ckpt
