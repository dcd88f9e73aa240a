// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/placement_report.h"

#include <shampoo/shampoo.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/bench/fail.h"
#include "tests/bench/svg_chart.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGiga = 1e9;

std::string Format(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Number(double value) { return Format(value >= 99.95 ? "%.0f" : value >= 9.995 ? "%.1f" : "%.2f", value); }

std::string Bytes(double bytes) {
  const char* const units[] = {"kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (bytes /= 1e3; bytes >= 999.5 && unit < 3; bytes /= 1e3) ++unit;
  return Number(bytes) + ' ' + units[unit];
}

std::string Milliseconds(double seconds) { return Number(seconds * 1e3); }

std::string Percent(double part) { return Number(part * 100) + " %"; }

void PrintCells(const std::vector<std::string>& cells) {
  // As wide as the heads, so that a terminal shows columns.
  const int widths[] = {5, 7, 9, 14, 13, 12, 10, 9, 9, 11, 13, 8};
  for (size_t i = 0; i < cells.size(); ++i) std::printf("| %*s ", widths[i], cells[i].c_str());
  std::puts("|");
}

std::string TrainingStep(const Model& model, const Rates& rates) {
  std::string text = "a training step takes " + Milliseconds(TrainSeconds(model, rates)) + " ms";
  if (model.tokens > 0) text += ", " + std::to_string(model.tokens) + " tokens for each rank";
  if (!model.batch.empty()) text += (model.tokens > 0 ? " (" : ", assumed of ") + model.batch;
  if (model.tokens > 0 && !model.batch.empty()) text += ")";
  return text;
}

Json LoadJson(const Load& load) { return {{"largest", load.largest}, {"mean", load.mean}}; }

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
          {"updates", LoadJson(row.updates)},
          {"state", LoadJson(row.state)},
          {"compute_seconds", LoadJson(row.compute)},
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
  std::printf("**%s**: %" PRId64 " parameters, %" PRId64 " blocks; %s\n\n", model.title.c_str(), Parameters(model.of),
              placement.rows.front().blocks, TrainingStep(model, options.rates).c_str());
  PrintCells({"world", "balance", "no block", "state max/mean", "time max/mean", "state, most", "state, mean", "sent",
              "gathered", "compute, ms", "all-gather, ms", "overhead"});
  for (int i = 0; i < 12; ++i) std::printf("|---");
  std::puts("|");
  for (const PlacementRow& row : placement.rows) {
    PrintCells({std::to_string(row.world), row.balance, std::to_string(row.idle), Number(row.state.Imbalance()),
                Number(row.compute.Imbalance()), Bytes(row.state.largest), Bytes(row.state.mean),
                Bytes(static_cast<double>(row.sent)), Bytes(static_cast<double>(row.Gathered())),
                Milliseconds(row.compute.largest), Milliseconds(row.gather_seconds), Percent(row.Overhead())});
  }
  std::puts("");
  std::fflush(stdout);
}

void WritePlacementJson(const std::vector<Placement>& placements, const PlacementOptions& options) {
  if (options.json.empty()) return;
  const Rates& rates = options.rates;
  Json report = {{"program", "shampoo_placement"},
                 {"build_info", Json::parse(shampoo_build_info())},
                 {"block", options.block},
                 {"frequency", options.frequency},
                 {"grafting", options.grafting},
                 {"keys", Json::object()},
                 {"shards", options.shards},
                 {"group", options.group},
                 {"rates",
                  {{"flops", rates.train_flops},
                   {"shampoo_flops", rates.shampoo_flops},
                   {"root_flops", rates.root_flops},
                   {"link", rates.link_bytes},
                   {"latency", rates.latency}}},
                 {"models", Json::array()}};
  for (const auto& [key, value] : options.keys) report["keys"][key] = value;
  for (const Placement& placement : placements) {
    Json model = {{"model", placement.model.name},
                  {"parameters", Parameters(placement.model.of)},
                  {"train_seconds", TrainSeconds(placement.model, rates)},
                  {"rows", Json::array()}};
    for (const PlacementRow& row : placement.rows) model["rows"].push_back(RowJson(row));
    report["models"].push_back(model);
  }
  std::ofstream file(options.json);
  file << report.dump(2) << '\n';
  if (!file.flush()) Fail("cannot write " + options.json);
}

void WritePlacementChart(const std::vector<Placement>& placements, const PlacementOptions& options) {
  if (options.svg.empty()) return;
  const std::string& balance = options.balances.back();
  Chart chart;
  chart.title = "Shampoo on many ranks: predicted, not measured";
  chart.note = "balance " + balance + ", block " + std::to_string(options.block) + ", roots every " +
               std::to_string(options.frequency) + " steps, grafting " + options.grafting;
  chart.x_title = "ranks";
  for (const int world : options.worlds) chart.x.push_back(world);
  chart.panels[0].title = "overhead of a step in %";
  chart.panels[1].title = "state of the most loaded rank in GB";
  for (const Placement& placement : placements) {
    const auto overhead = [](const PlacementRow& row) { return row.Overhead() * 100; };
    const auto state = [](const PlacementRow& row) { return row.state.largest / kGiga; };
    chart.panels[0].curves.push_back(CurveOf(placement, balance, overhead));
    chart.panels[1].curves.push_back(CurveOf(placement, balance, state));
  }
  WriteChart(chart, options.svg);
}

}  // namespace bench
