// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_shards_report.h"

#include <cinttypes>
#include <cstdio>

#include "tools/bench/chart.h"
#include "tools/bench/placement_json.h"
#include "tools/bench/placement_table.h"

namespace bench {
namespace {

constexpr double kMega = 1e6;

Json LoadsJson(const ShardsLoad& loads) {
  return {{"sent", JsonOf(loads.sent)}, {"workspace", JsonOf(loads.workspace)}, {"total", JsonOf(loads.total)}};
}

Json RowJson(const ShardsRow& row) {
  return {{"world", row.world},
          {"balance", row.balance},
          {"elements", row.elements},
          {"blocks", row.blocks},
          {"ranks_without_block", row.idle},
          {"alone", {{"state", row.alone_state}, {"workspace", row.alone_workspace}}},
          {"state", JsonOf(row.state)},
          {"all_to_all", LoadsJson(row.all_to_all)},
          {"all_gather", LoadsJson(row.all_gather)},
          {"gathered", row.Gathered()},
          {"even", {{"sent", row.EvenSent()}, {"total", row.EvenTotal()}}}};
}

template <typename Value>
Curve CurveOf(const std::string& name, const std::vector<const ShardsRow*>& rows, const Value& value) {
  Curve curve{name, {}};
  for (const ShardsRow* row : rows) curve.y.push_back(value(*row) / kMega);
  return curve;
}

}  // namespace

void PrintShards(const Shards& shards) {
  const ShardsRow& first = shards.rows.front();
  std::printf("**%s**: %" PRId64 " parameters, %" PRId64 " blocks; one rank alone: %s of state, %s of workspace\n\n",
              shards.model.title.c_str(), first.elements, first.blocks, BytesText(first.alone_state).c_str(),
              BytesText(first.alone_workspace).c_str());
  const Table table({"world", "balance", "no block", "sent, most", "sent, mean", "sent, even", "gathered", "workspace",
                     "workspace, all-gather", "total", "total, all-gather", "total, even"});
  for (const ShardsRow& row : shards.rows) {
    table.Add({std::to_string(row.world), row.balance, std::to_string(row.idle), BytesText(row.all_to_all.sent.largest),
               BytesText(row.all_to_all.sent.mean), BytesText(row.EvenSent()), BytesText(row.Gathered()),
               BytesText(row.all_to_all.workspace.largest), BytesText(row.all_gather.workspace.largest),
               BytesText(row.all_to_all.total.largest), BytesText(row.all_gather.total.largest),
               BytesText(row.EvenTotal())});
  }
  table.End();
}

void WriteShardsJson(const std::vector<Shards>& all, const PlacementOptions& options) {
  if (options.json.empty()) return;
  Json report = HeadJson(options);
  report["models"] = Json::array();
  for (const Shards& shards : all) {
    Json model = {
        {"model", shards.model.name}, {"parameters", Parameters(shards.model.shapes)}, {"rows", Json::array()}};
    for (const ShardsRow& row : shards.rows) model["rows"].push_back(RowJson(row));
    report["models"].push_back(model);
  }
  WriteJsonFile(report, options.json);
}

void WriteShardsChart(const std::vector<Shards>& all, const PlacementOptions& options) {
  if (options.chart.empty()) return;
  const Shards& shards = all.front();
  const std::string& balance = options.balances.back();
  std::vector<const ShardsRow*> rows;
  for (const ShardsRow& row : shards.rows) {
    if (row.balance == balance) rows.push_back(&row);
  }
  Chart chart;
  chart.title = shards.model.title + " in shards, shard_mode=gather: predicted by the plan";
  chart.note = "balance=" + balance + ", blocks of " + std::to_string(options.block) + ", grafting=" + options.grafting;
  chart.x_title = "ranks";
  for (const ShardsRow* row : rows) chart.x.push_back(row->world);
  Panel& traffic = chart.panels[0];
  traffic.title = "MB that the busiest rank sends or receives in a step";
  traffic.curves = {CurveOf("all-to-all", rows, [](const ShardsRow& row) { return row.all_to_all.sent.largest; }),
                    CurveOf("all-gather", rows, [](const ShardsRow& row) { return row.Gathered(); })};
  traffic.dashed = {CurveOf("1 / ranks", rows, [](const ShardsRow& row) { return row.EvenSent(); })};
  Panel& memory = chart.panels[1];
  memory.title = "memory of the fullest rank in MB";
  memory.curves = {CurveOf("all-to-all", rows, [](const ShardsRow& row) { return row.all_to_all.total.largest; }),
                   CurveOf("all-gather", rows, [](const ShardsRow& row) { return row.all_gather.total.largest; })};
  memory.dashed = {CurveOf("1 / ranks", rows, [](const ShardsRow& row) { return row.EvenTotal(); })};
  WriteChart(chart, options.chart);
}

}  // namespace bench
