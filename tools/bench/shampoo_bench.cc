// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Measures steps of whole models through the public API. Compares the times with limits of the machine that are
// measured in the same run: the rate of multiply-adds in registers, and the bandwidth. --help lists the options.
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <optional>

#include "tools/bench/device_rows.h"
#include "tools/bench/grid.h"
#include "tools/bench/json_report.h"
#include "tools/bench/options.h"
#include "tools/bench/orthogonalize.h"
#include "tools/bench/report.h"
#include "tools/bench/roots.h"
#include "tools/bench/runner.h"
#include "tools/bench/selection.h"
#include "tools/bench/simulate.h"

namespace bench {
namespace {

void ListCases() {
  for (const Case& model : AllCases()) {
    std::printf("%-15s %5zu tensors %10" PRId64 " parameters  %s; blocks of", model.name.c_str(), model.tensors.size(),
                Parameters(model), model.about.c_str());
    for (const int64_t block : model.blocks) std::printf(" %" PRId64, block);
    std::puts("");
  }
}

std::optional<Case> OwnShapes(const Options& options) {
  if (!options.shapes.empty()) return CaseOfShapes(options.shapes);
  if (!options.shapes_file.empty()) return CaseOfFile(options.shapes_file);
  return {};
}

Machines MeasureMachines(const std::vector<int>& threads) {
  Machines machines;
  for (const int count : threads) machines[count] = MeasureMachine(count);
  return machines;
}

void MeasureRows(const Options& options) {
  const bool grid = options.mode == Mode::kGrid;
  const bool with_phases = !grid && CanTrackTimes();
  const std::optional<Case> shapes = OwnShapes(options);
  const std::vector<RowSpec> specs = RowsFor(options, shapes ? &*shapes : nullptr);
  Machines machines = MeasureMachines(options.threads);
  PrintLibrary(!grid);
  PrintMachines("at start", machines);
  std::puts("");
  grid ? PrintGridHead(*specs.front().model, options.frequencies) : PrintHead(options.frequencies);
  std::fflush(stdout);
  std::vector<Row> rows;
  for (const RowSpec& spec : specs) {
    const Settings& settings = spec.settings;
    std::fprintf(stderr, "[%zu/%zu] %s in blocks of %" PRId64 ", grafting %s, states in %s, %d thread%s\n",
                 rows.size() + 1, specs.size(), spec.model->name.c_str(), settings.block, settings.grafting.c_str(),
                 settings.state_dtype.c_str(), settings.threads, settings.threads == 1 ? "" : "s");
    Machine& machine = machines.at(settings.threads);
    MeasureAgain(&machine);
    rows.push_back(MeasureRow(*spec.model, settings, options.min_runs, with_phases));
    grid ? PrintGridRow(rows.back(), options.frequencies) : PrintRow(rows.back(), machine, options.frequencies);
    // The file is written after each row, because a run may be interrupted.
    WriteJson(options.json, machines, rows, options.frequencies, {});
  }
  std::puts("");
  PrintMachines("at best", machines);
  if (!options.chart.empty()) WriteGridChart(rows, options.frequencies, options.chart);
}

// Measures steps on a device, or periods of consecutive steps (--period). Does not compare the times with limits of the
// machine.
void MeasureTimes(const Options& options) {
  const std::unique_ptr<Device> device = MakeDevice(options.device, options.plugin);
  const std::optional<Case> shapes = OwnShapes(options);
  const bool periods = options.mode == Mode::kPeriod;
  PrintLibrary(false);
  std::printf("device     %s\n\n", options.device.c_str());
  periods ? PrintPeriodHead() : PrintDeviceHead(options.frequencies);
  std::vector<Row> rows;
  std::vector<PeriodRow> period_rows;
  for (const RowSpec& spec : RowsFor(options, shapes ? &*shapes : nullptr)) {
    Settings settings = spec.settings;
    settings.device = device.get();
    if (periods) {
      period_rows.push_back(MeasurePeriod(*spec.model, settings, options.min_runs));
      PrintPeriodRow(period_rows.back());
    } else {
      rows.push_back(MeasureRow(*spec.model, settings, options.min_runs, false));
      PrintDeviceRow(rows.back(), options.frequencies);
    }
    WriteDeviceJson(options.json, options.device, rows, period_rows, options.frequencies);
  }
}

void Run(const Options& options) {
  switch (options.mode) {
    case Mode::kList:
      return ListCases();
    case Mode::kPeriod:
      return MeasureTimes(options);
    case Mode::kRows:
      if (options.device != "cpu") return MeasureTimes(options);
      [[fallthrough]];
    case Mode::kGrid:
      return MeasureRows(options);
    case Mode::kInverseRoots:
      PrintLibrary(false);
      return MeasureRoots(options.min_runs);
    case Mode::kOrthogonalization:
      PrintLibrary(false);
      return MeasureOrthogonalization(options.min_runs);
    case Mode::kSimulate: {
      const Machines machines = MeasureMachines({1});
      PrintLibrary(false);
      PrintMachines("at start", machines);
      std::puts("");
      return WriteJson(options.json, machines, {}, options.frequencies, RunSimulations(options));
    }
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Run(bench::ReadOptions(argc, argv));
  return 0;
}
