// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/json_report.h"

#include <shampoo/shampoo.h>

#include <cmath>

#include "tools/bench/json_file.h"
#include "tools/bench/limits.h"

namespace bench {
namespace {

Json WorkJson(const Work& work) { return {{"flops", work.flops}, {"bytes", work.bytes}}; }

Json PhaseJson(const PhaseLimit& phase) {
  if (!std::isfinite(phase.seconds) || phase.seconds <= 0) return nullptr;
  return {{"thread_ms", phase.seconds * 1e3},
          {"gflops", phase.work.flops / phase.seconds / 1e9},
          {"gb_per_s", phase.work.bytes / phase.seconds / 1e9},
          {"bound_by", phase.bound_by_flops ? "flops" : "bytes"},
          {"fraction_of_limit", phase.limit / phase.seconds}};
}

Json RowJson(const Row& row, const Machine& machine, const std::vector<int64_t>& frequencies) {
  Json json = {{"case", row.model->name},
               {"threads", row.settings.threads},
               {"block", row.settings.block},
               {"grafting", row.settings.grafting},
               {"state_dtype", row.settings.state_dtype},
               {"keys", Json::object()},
               {"tensors", row.model->tensors.size()},
               {"parameters", row.work.parameters},
               {"blocks", row.work.blocks},
               {"state_bytes", row.memory.state},
               {"workspace_bytes", row.memory.workspace},
               {"bytes_per_parameter", row.BytesPerParameter()},
               {"ordinary_ms", row.ordinary.seconds * 1e3},
               {"ordinary_runs", row.ordinary.runs},
               {"with_roots_ms", row.with_roots.seconds * 1e3},
               {"with_roots_runs", row.with_roots.runs},
               {"mean_ms", Json::object()},
               {"gflops", row.work.ProductFlops() / row.ordinary.seconds / 1e9},
               {"fraction_of_peak", FractionOfPeak(row, machine)},
               {"fraction_of_limit", StepLimit(row, machine) / row.ordinary.seconds},
               {"root_retried", row.root_retried},
               {"work", Json::object()},
               {"phases", nullptr}};
  for (const auto& [key, value] : row.settings.keys) json["keys"][key] = value;
  for (const int64_t frequency : frequencies) {
    json["mean_ms"][std::to_string(frequency)] = row.Mean(frequency) * 1e3;
  }
  for (const PhaseLimit& phase : PhaseLimits(row, machine)) json["work"][phase.name] = WorkJson(phase.work);
  if (row.has_phases) {
    json["phases"] = Json::object();
    for (const PhaseLimit& phase : PhaseLimits(row, machine)) json["phases"][phase.name] = PhaseJson(phase);
  }
  return json;
}

Json SimulationJson(const Simulation& simulation) {
  Json json = {{"case", simulation.model->name},
               {"block", simulation.block},
               {"blocks", simulation.blocks},
               {"distinct_shapes", simulation.distinct_shapes},
               {"ordinary_work_ms", simulation.ordinary_work * 1e3},
               {"with_roots_work_ms", simulation.with_roots_work * 1e3},
               {"efficiency", Json::array()}};
  for (const Efficiency& point : simulation.efficiency) {
    json["efficiency"].push_back(
        {{"threads", point.threads}, {"ordinary", point.ordinary}, {"with_roots", point.with_roots}});
  }
  return json;
}

}  // namespace

void WriteJson(const std::string& path, const Machines& machines, const std::vector<Row>& rows,
               const std::vector<int64_t>& frequencies, const std::vector<Simulation>& simulations) {
  if (path.empty()) return;
  Json report = {{"program", "shampoo_bench"}, {"build_info", Json::parse(shampoo_build_info())},
                 {"processor", CpuName()},     {"vectors", InstructionSetName()},
                 {"machines", Json::array()},  {"rows", Json::array()},
                 {"simulation", Json::array()}};
  for (const auto& [threads, machine] : machines) {
    report["machines"].push_back({{"threads", threads},
                                  {"gflops", machine.peak / 1e9},
                                  {"memory_gb_per_s", machine.memory_rate / 1e9},
                                  {"cache_gb_per_s", machine.cache_rate / 1e9}});
  }
  for (const Row& row : rows) report["rows"].push_back(RowJson(row, machines.at(row.settings.threads), frequencies));
  for (const Simulation& simulation : simulations) report["simulation"].push_back(SimulationJson(simulation));
  WriteJsonFile(report, path);
}

}  // namespace bench
