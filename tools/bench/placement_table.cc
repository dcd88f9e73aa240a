// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_table.h"

#include <algorithm>
#include <cstdio>

namespace bench {

Table::Table(const std::vector<std::string>& heads) {
  constexpr int kMin = 7;  // "21.0 MB"
  for (const std::string& head : heads) widths_.push_back(std::max(kMin, static_cast<int>(head.size())));
  Add(heads);
  for (size_t i = 0; i < heads.size(); ++i) std::printf("|---");
  std::puts("|");
}

void Table::Add(const std::vector<std::string>& cells) const {
  for (size_t i = 0; i < cells.size(); ++i) std::printf("| %*s ", widths_[i], cells[i].c_str());
  std::puts("|");
}

void Table::End() const {
  std::puts("");
  std::fflush(stdout);
}

std::string NumberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : "%.2f", value);
  return text;
}

std::string BytesText(double bytes) {
  const char* const units[] = {"kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (bytes /= 1e3; bytes >= 999.5 && unit < 3; bytes /= 1e3) ++unit;
  return NumberText(bytes) + ' ' + units[unit];
}

}  // namespace bench
