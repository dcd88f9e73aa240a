// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/chart.h"

#include "tools/bench/json_file.h"

namespace bench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Curve, name, y)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Panel, title, curves, dashed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Chart, title, note, x_title, x, panels)

void WriteChart(const Chart& chart, const std::string& path) { WriteJsonFile(nlohmann::json(chart), path); }

}  // namespace bench
