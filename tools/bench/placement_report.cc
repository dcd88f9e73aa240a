// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_report.h"

#include <cinttypes>
#include <cstdio>

#include "tools/bench/chart.h"
#include "tools/bench/placement_json.h"
#include "tools/bench/placement_table.h"

namespace bench {
namespace {

constexpr double kGiga = 1e9;

std::string Milliseconds(double seconds) { return NumberText(seconds * 1e3); }

std::string Percent(double part) { return NumberText(part * 100) + " %"; }

std::string TrainingStep(const Model& model, const Rates& rates) {
  std::string text = "a training step takes " + Milliseconds(TrainSeconds(model, rates)) + " ms";
  if (model.tokens > 0) text += ", " + std::to_string(model.tokens) + " tokens per rank";
  if (!model.batch.empty()) text += (model.tokens > 0 ? " (" : ", assumed for ") + model.batch;
  if (model.tokens > 0 && !model.batch.empty()) text += ")";
  return text;
}

Json RowJson(const PlacementRow& row) {
  return {{"world", row.world},
          {"balance", row.balance},
          {"replicas", row.replicas},
          {"elements", row.elements},
          {"blocks", row.blocks},
          {"blocks_state", row.blocks_state},
          {"ranks_state", row.ranks_state},
          {"ranks_without_block", row.idle},
          {"sent", row.sent},
          {"gathered", row.Gathered()},
          {"updates", JsonOf(row.updates)},
          {"state", JsonOf(row.state)},
          {"compute_seconds", JsonOf(row.compute)},
          {"gather_seconds", row.gather_seconds},
          {"overhead", row.Overhead()}};
}

template <typename Value>
Curve CurveOf(const Placement& placement, const std::string& balance, const Value& value) {
  Curve curve{placement.model.title, {}};
  for (const PlacementRow& row : placement.rows) {
    if (row.balance == balance) curve.y.push_back(value(row));
  }
  return curve;
}

}  // namespace

void PrintPlacement(const Placement& placement, const PlacementOptions& options) {
  const Model& model = placement.model;
  std::printf("**%s**: %" PRId64 " parameters, %" PRId64 " blocks; %s\n\n", model.title.c_str(),
              Parameters(model.shapes), placement.rows.front().blocks, TrainingStep(model, options.rates).c_str());
  const Table table({"world", "balance", "no block", "state max/mean", "time max/mean", "state, most", "state, mean",
                     "sent", "gathered", "compute, ms", "all-gather, ms", "overhead"});
  for (const PlacementRow& row : placement.rows) {
    table.Add({std::to_string(row.world), row.balance, std::to_string(row.idle), NumberText(row.state.Imbalance()),
               NumberText(row.compute.Imbalance()), BytesText(row.state.largest), BytesText(row.state.mean),
               BytesText(static_cast<double>(row.sent)), BytesText(static_cast<double>(row.Gathered())),
               Milliseconds(row.compute.largest), Milliseconds(row.gather_seconds), Percent(row.Overhead())});
  }
  table.End();
}

void WritePlacementJson(const std::vector<Placement>& placements, const PlacementOptions& options) {
  if (options.json.empty()) return;
  const Rates& rates = options.rates;
  Json report = HeadJson(options);
  report["shards"] = options.shards;
  report["group"] = options.group;
  report["rates"] = {{"flops", rates.train_flops},
                     {"shampoo_flops", rates.shampoo_flops},
                     {"root_flops", rates.root_flops},
                     {"link", rates.link_bytes},
                     {"latency", rates.latency}};
  report["models"] = Json::array();
  for (const Placement& placement : placements) {
    Json model = {{"model", placement.model.name},
                  {"parameters", Parameters(placement.model.shapes)},
                  {"train_seconds", TrainSeconds(placement.model, rates)},
                  {"rows", Json::array()}};
    for (const PlacementRow& row : placement.rows) model["rows"].push_back(RowJson(row));
    report["models"].push_back(model);
  }
  WriteJsonFile(report, options.json);
}

void WritePlacementChart(const std::vector<Placement>& placements, const PlacementOptions& options) {
  if (options.chart.empty()) return;
  const std::string& balance = options.balances.back();
  Chart chart;
  chart.title = "Shampoo on many ranks: predicted, not measured";
  chart.note = "balance=" + balance + ", blocks of " + std::to_string(options.block) + ", roots every " +
               std::to_string(options.frequency) + " steps, grafting=" + options.grafting;
  chart.x_title = "ranks";
  for (const int world : options.worlds) chart.x.push_back(world);
  chart.panels[0].title = "time that Shampoo adds to a training step, in %";
  chart.panels[1].title = "state of the most loaded rank in GB";
  for (const Placement& placement : placements) {
    const auto overhead = [](const PlacementRow& row) { return row.Overhead() * 100; };
    const auto state = [](const PlacementRow& row) { return row.state.largest / kGiga; };
    chart.panels[0].curves.push_back(CurveOf(placement, balance, overhead));
    chart.panels[1].curves.push_back(CurveOf(placement, balance, state));
  }
  WriteChart(chart, options.chart);
}

}  // namespace bench
