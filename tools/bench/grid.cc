// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/grid.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "tools/bench/chart.h"

namespace bench {
namespace {

constexpr double kAdamwBytes = 8;  // two float32 moments for each element of a parameter
constexpr double kMebi = 1 << 20;

}  // namespace

void PrintGridHead(const Case& model, const std::vector<int64_t>& frequencies) {
  std::printf("%s: %zu tensors, %" PRId64
              " parameters; times in ms, memory in MiB; AdamW keeps %g bytes per parameter\n",
              model.about.c_str(), model.tensors.size(), Parameters(model), kAdamwBytes);
  std::printf("%5s %-8s %-5s %3s %7s %10s %11s", "block", "grafting", "state", "thr", "blocks", "ordinary",
              "with roots");
  for (const int64_t frequency : frequencies) std::printf(" %10s", ("mean@" + std::to_string(frequency)).c_str());
  std::printf(" %9s %9s %15s\n", "state", "workspace", "bytes/parameter");
}

void PrintGridRow(const Row& row, const std::vector<int64_t>& frequencies) {
  std::printf("%5" PRId64 " %-8s %-5s %3d %7" PRId64 " %10.2f %11.2f", row.settings.block,
              row.settings.grafting.c_str(), row.settings.state_dtype.c_str(), row.settings.threads, row.work.blocks,
              row.ordinary.seconds * 1e3, row.with_roots.seconds * 1e3);
  for (const int64_t frequency : frequencies) std::printf(" %10.2f", row.Mean(frequency) * 1e3);
  std::printf(" %9.1f %9.1f %15.1f\n", static_cast<double>(row.memory.state) / kMebi,
              static_cast<double>(row.memory.workspace) / kMebi, row.BytesPerParameter());
  std::fflush(stdout);
}

void WriteGridChart(const std::vector<Row>& rows, const std::vector<int64_t>& frequencies, const std::string& path) {
  const Row& first = rows.front();
  int threads = 0;
  for (const Row& row : rows) threads = std::max(threads, row.settings.threads);
  std::vector<const Row*> shown;
  for (const Row& row : rows) {
    if (row.settings.threads == threads && row.settings.grafting == first.settings.grafting &&
        row.settings.state_dtype == first.settings.state_dtype) {
      shown.push_back(&row);
    }
  }
  std::sort(shown.begin(), shown.end(), [](auto* a, auto* b) { return a->settings.block < b->settings.block; });

  Chart chart;
  chart.title = "Step time and memory by block size";
  chart.note = first.model->about + ": " + std::to_string(first.work.parameters) + " parameters, " +
               std::to_string(threads) + (threads == 1 ? " thread" : " threads") +
               ", grafting=" + first.settings.grafting + ", states in " + first.settings.state_dtype;
  chart.x_title = "max_preconditioner_dim";
  for (const Row* row : shown) chart.x.push_back(static_cast<double>(row->settings.block));
  const auto curve = [&shown](const std::string& name, const auto& value) {
    Curve result{name, {}};
    for (const Row* row : shown) result.y.push_back(value(*row));
    return result;
  };
  chart.panels[0].title = "ms per step, mean at each precondition_frequency";
  for (const int64_t frequency : frequencies) {
    const auto mean = [frequency](const Row& row) { return row.Mean(frequency) * 1e3; };
    chart.panels[0].curves.push_back(curve("every " + std::to_string(frequency), mean));
  }
  const auto ordinary = [](const Row& row) { return row.ordinary.seconds * 1e3; };
  chart.panels[0].dashed.push_back(curve("no roots", ordinary));
  chart.panels[1].title = "bytes per parameter";
  chart.panels[1].curves.push_back(curve("with workspace", [](const Row& row) { return row.BytesPerParameter(); }));
  chart.panels[1].curves.push_back(curve("state", [](const Row& row) {
    return static_cast<double>(row.memory.state) / static_cast<double>(row.work.parameters);
  }));
  chart.panels[1].dashed.push_back(curve("AdamW", [](const Row&) { return kAdamwBytes; }));
  WriteChart(chart, path);
}

}  // namespace bench
