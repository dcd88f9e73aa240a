// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace bench {

struct Curve {
  std::string name;
  std::vector<double> y;  // one for each x, above 0
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;
  std::vector<Curve> dashed;  // curves for comparison, drawn as dashed lines
};

// Two panels side by side with the same x and logarithmic axes.
struct Chart {
  std::string title;
  std::string note;
  std::string x_title;
  std::vector<double> x;  // numbers above 0, in ascending order
  Panel panels[2];
};

// Writes a chart as JSON, which draw_chart.py draws.
void WriteChart(const Chart& chart, const std::string& path);

}  // namespace bench
