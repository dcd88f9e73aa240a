// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/device_rows.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>

#include "tools/bench/fail.h"
#include "tools/bench/json_file.h"

namespace bench {
namespace {

// Periods (PeriodRow) are measured for about this number of seconds. At least one period is measured.
constexpr double kTimeOfPeriods = 2;

std::string KeysText(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : settings.keys) text += (text.empty() ? "" : " ") + key + "=" + value;
  return text.empty() ? "-" : text;
}

Json SettingsJson(const Case& model, const Settings& settings, const StepWork& work, const Memory& memory) {
  Json json = {{"case", model.name},
               {"threads", settings.threads},
               {"block", settings.block},
               {"grafting", settings.grafting},
               {"state_dtype", settings.state_dtype},
               {"keys", Json::object()},
               {"parameters", work.parameters},
               {"blocks", work.blocks},
               {"state_bytes", memory.state},
               {"workspace_bytes", memory.workspace}};
  for (const auto& [key, value] : settings.keys) json["keys"][key] = value;
  return json;
}

Json RowJson(const Row& row, const std::vector<int64_t>& frequencies) {
  Json json = SettingsJson(*row.model, row.settings, row.work, row.memory);
  json.update({{"ordinary_ms", row.ordinary.seconds * 1e3},
               {"ordinary_host_ms", row.ordinary.host_seconds * 1e3},
               {"ordinary_runs", row.ordinary.runs},
               {"with_roots_ms", row.with_roots.seconds * 1e3},
               {"with_roots_host_ms", row.with_roots.host_seconds * 1e3},
               {"with_roots_runs", row.with_roots.runs},
               {"mean_ms", Json::object()},
               {"root_retried", row.root_retried}});
  for (const int64_t frequency : frequencies) {
    json["mean_ms"][std::to_string(frequency)] = row.Mean(frequency) * 1e3;
  }
  return json;
}

Json PeriodJson(const PeriodRow& row) {
  Json json = SettingsJson(*row.model, row.settings, row.work, row.memory);
  json.update({{"period", row.settings.period},
               {"mean_ms", row.mean * 1e3},
               {"longest_ms", row.longest_device * 1e3},
               {"longest_host_ms", row.longest_host * 1e3},
               {"root_retried", row.root_retried}});
  return json;
}

// Returns the number of steps after which the roots of a refresh come into use: the value of root_async, or 0 if
// root_async is not set.
int64_t AsyncSteps(const Settings& settings) {
  for (const auto& [key, value] : settings.keys) {
    if (key == "root_async") return std::stoll(value);
  }
  return 0;
}

}  // namespace

PeriodRow MeasurePeriod(const Case& model, const Settings& settings, int max_runs) {
  Session session(model, settings);
  PeriodRow row{.model = &model, .settings = settings, .work = session.work(), .memory = session.memory()};
  row.mean = std::numeric_limits<double>::infinity();
  // These steps are not timed. After them, the last step of each measurement is the step that begins to use the async
  // roots. Otherwise these roots could be computed between two measurements, where nothing is timed: at its end, a
  // measurement waits for the device, but not for the thread that computes or enqueues the roots.
  (void)session.TimeSteps(AsyncSteps(settings));
  const double first = session.TimeSteps(settings.period);
  const int runs = std::clamp(static_cast<int>(kTimeOfPeriods / first), 1, max_runs);
  for (int i = 0; i < runs; ++i) {
    row.mean = std::min(row.mean, session.TimeSteps(settings.period) / static_cast<double>(settings.period));
  }
  for (int64_t i = 0; i < settings.period; ++i) {
    const StepTime time = session.TimeNextStep();
    row.longest_host = std::max(row.longest_host, time.host);
    row.longest_device = std::max(row.longest_device, time.device);
  }
  row.root_retried = session.Stat("root_retried");
  if (session.Stat("nonfinite_blocks") > 0)
    Fail("a step skipped the update of a block, because a value was not finite; the measured times are not valid");
  return row;
}

void PrintDeviceHead(const std::vector<int64_t>& frequencies) {
  std::printf("%-12s %5s %-8s %-5s %11s %6s %12s %12s %12s %12s", "case", "block", "grafting", "state", "parameters",
              "blocks", "ordinary ms", "its call", "with roots", "its call");
  for (const int64_t frequency : frequencies) std::printf(" %10s", ("mean@" + std::to_string(frequency)).c_str());
  std::printf("  keys\n");
}

void PrintDeviceRow(const Row& row, const std::vector<int64_t>& frequencies) {
  std::printf("%-12s %5" PRId64 " %-8s %-5s %11" PRId64 " %6" PRId64 " %12.3f %12.3f %12.3f %12.3f",
              row.model->name.c_str(), row.settings.block, row.settings.grafting.c_str(),
              row.settings.state_dtype.c_str(), row.work.parameters, row.work.blocks, row.ordinary.seconds * 1e3,
              row.ordinary.host_seconds * 1e3, row.with_roots.seconds * 1e3, row.with_roots.host_seconds * 1e3);
  for (const int64_t frequency : frequencies) std::printf(" %10.3f", row.Mean(frequency) * 1e3);
  std::printf("  %s\n", KeysText(row.settings).c_str());
  if (row.root_retried > 0) std::printf("    %.0f roots needed the recovery ladder\n", row.root_retried);
  std::fflush(stdout);
}

void PrintPeriodHead() {
  std::printf("%-12s %5s %-8s %-5s %11s %6s %6s %12s %12s %12s  %s\n", "case", "block", "grafting", "state",
              "parameters", "blocks", "period", "mean ms", "longest ms", "longest call", "keys");
}

void PrintPeriodRow(const PeriodRow& row) {
  std::printf("%-12s %5" PRId64 " %-8s %-5s %11" PRId64 " %6" PRId64 " %6" PRId64 " %12.3f %12.3f %12.3f  %s\n",
              row.model->name.c_str(), row.settings.block, row.settings.grafting.c_str(),
              row.settings.state_dtype.c_str(), row.work.parameters, row.work.blocks, row.settings.period,
              row.mean * 1e3, row.longest_device * 1e3, row.longest_host * 1e3, KeysText(row.settings).c_str());
  if (row.root_retried > 0) std::printf("    %.0f roots needed the recovery ladder\n", row.root_retried);
  std::fflush(stdout);
}

void WriteDeviceJson(const std::string& path, const std::string& device, const std::vector<Row>& rows,
                     const std::vector<PeriodRow>& periods, const std::vector<int64_t>& frequencies) {
  if (path.empty()) return;
  Json report = {{"program", "shampoo_bench"},
                 {"build_info", Json::parse(shampoo_build_info())},
                 {"device", device},
                 {"rows", Json::array()},
                 {"periods", Json::array()}};
  for (const Row& row : rows) report["rows"].push_back(RowJson(row, frequencies));
  for (const PeriodRow& row : periods) report["periods"].push_back(PeriodJson(row));
  WriteJsonFile(report, path);
}

}  // namespace bench
