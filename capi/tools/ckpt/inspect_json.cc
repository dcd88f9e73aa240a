// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "capi/tools/ckpt/inspect.h"

namespace shampoo::ckpt {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Returns the value as text. Invalid UTF-8, which a path may contain, is replaced.
std::string Dumped(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson ListOf(const Shape& shape) {
  OrderedJson list = OrderedJson::array();
  for (const int64_t dim : shape.View()) list.push_back(dim);
  return list;
}

// Returns the sums as JSON. Numbers that are not finite become null.
OrderedJson JsonOf(const StateSums& sums) {
  OrderedJson states = OrderedJson::object();
  for (const auto& [kind, sum] : sums) {
    OrderedJson& state = states[kind];
    state = {{"dtype", NameOf(sum.dtype)}, {"entries", sum.entries}, {"damaged", sum.damaged}};
    if (sum.damaged) continue;
    state["norm"] = sum.norm();
    if (IsTriangle(kind)) state["trace"] = sum.trace;
  }
  return states;
}

OrderedJson JsonOf(const StoredBlock& block, const CheckpointIndex& outline) {
  const BlockPlace& place = block.place;
  OrderedJson entries = OrderedJson::object();
  for (const StoredEntry& entry : block.entries) entries[entry.state] = NameOf(entry.dtype);
  Shape strides = place.shape;
  strides.dims = place.stride;
  OrderedJson json = {{"key", block.key},
                      {"shape", ListOf(place.shape)},
                      {"first", place.first()},
                      {"strides", ListOf(strides)},
                      {"file", outline.files[static_cast<size_t>(block.file)].name},
                      {"entries", std::move(entries)}};
  if (!place.is_whole()) {
    json["piece"] = {{"shape", ListOf(place.piece.shape)},
                     {"offset", ListOf(place.piece.offset)},
                     {"extent", ListOf(place.piece.extent)}};
  }
  return json;
}

// Writes the JSON of one parameter after another, because one JSON value for the whole checkpoint would take much more
// memory.
class JsonReport : public Report {
 public:
  explicit JsonReport(const Arguments& arguments) : arguments_(arguments) {}

  void Begin(const Source& source, const CheckpointIndex& outline) override {
    outline_ = &outline;
    OrderedJson json = {
        {"path", source.path},           {"number", source.number > 0 ? OrderedJson(source.number) : OrderedJson()},
        {"complete", source.complete},   {"unfinished", source.unfinished},
        {"format", outline.format},      {"library", outline.library},
        {"ranks", outline.world},        {"bytes", 0},
        {"files", OrderedJson::array()}, {"groups", OrderedJson::array()}};
    int64_t bytes = 0;
    for (const StoredFile& file : outline.files) {
      bytes += file.bytes;
      json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
    }
    json["bytes"] = bytes;
    for (const StoredGroup& group : outline.groups) {
      OrderedJson config = OrderedJson::object();
      for (const auto& [key, value] : group.config) config[key] = value;
      json["groups"].push_back({{"step", group.step}, {"config", std::move(config)}});
    }
    std::string text = Dumped(json);
    text.pop_back();  // removes the closing brace, because Add() and End() append more members
    Print(text + ",\n\"parameters\":[");
  }

  void Add(const StoredParam& param, const std::vector<const StoredBlock*>& blocks, const StateSums* sums) override {
    OrderedJson json = {{"name", param.name},
                        {"shape", ListOf(param.shape)},
                        {"dtype", NameOf(param.dtype)},
                        {"group", param.group},
                        {"blocks", blocks.size()}};
    if (sums != nullptr) json["states"] = JsonOf(*sums);
    if (arguments_.blocks) {
      OrderedJson& list = json["block_list"] = OrderedJson::array();
      for (const StoredBlock* block : blocks) list.push_back(JsonOf(*block, *outline_));
    }
    Print((is_first_ ? "\n" : ",\n") + Dumped(json));
    is_first_ = false;
  }

  void End(const std::vector<std::string>& damage) override {
    Print(Cat("\n],\n\"damage\":", Dumped(OrderedJson(damage)), "}\n"));
  }

 private:
  static void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

  const Arguments& arguments_;
  const CheckpointIndex* outline_ = nullptr;
  bool is_first_ = true;
};

}  // namespace

std::unique_ptr<Report> MakeJsonReport(const Arguments& arguments) { return std::make_unique<JsonReport>(arguments); }

}  // namespace shampoo::ckpt
