// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace bench {

struct Curve {
  std::string name;
  std::vector<double> y;  // one number above 0 for each x of the chart
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;
  std::vector<Curve> dashed;  // curves for comparison, drawn as dashed lines
};

// A chart with two panels side by side. The panels have the same x values, and all axes are logarithmic.
struct Chart {
  std::string title;
  std::string note;
  std::string x_title;
  std::vector<double> x;  // numbers above 0, in ascending order
  Panel panels[2];
};

// Writes a chart to a JSON file. draw_chart.py makes a picture from the file.
void WriteChart(const Chart& chart, const std::string& path);

}  // namespace bench
