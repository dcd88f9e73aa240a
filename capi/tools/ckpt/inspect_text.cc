// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <map>

#include "capi/tools/ckpt/inspect.h"
#include "capi/tools/ckpt/table.h"
#include "core/base/amount.h"
#include "core/config/keys.h"
#include "core/plan/shape.h"

namespace shampoo::ckpt {
namespace {

void Print(const std::string& text) { std::fputs(text.c_str(), stdout); }

std::string Listed(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += Cat(text.empty() ? "" : ", ", number);
  return text;
}

// Returns the names and values of the hyper-parameters in kMain, then of all others whose value differs from the
// default or that this version does not know.
std::string ConfigText(const StoredGroup& group) {
  constexpr const char* kMain[] = {"lr",           "beta1",    "beta2",
                                   "epsilon",      "momentum", "max_preconditioner_dim",
                                   "weight_decay", "grafting", "precondition_frequency"};
  std::string text;
  const auto add = [&text](const std::string& name, const std::string& value) {
    text += Cat(text.empty() ? "" : ", ", name, " ", value);
  };
  for (const char* name : kMain) {
    if (const std::string* const value = group.Value(name)) add(name, *value);
  }
  for (const auto& [name, value] : group.config) {
    const Key* const key = FindKey(name);
    const bool is_main = std::find(std::begin(kMain), std::end(kMain), name) != std::end(kMain);
    if (!is_main && (key == nullptr || value != key->default_text)) add(name, value);
  }
  return text;
}

// Returns the names of the states of a block, grouped by dtype, such as "f32 factor.0 momentum, i32 diagonal".
std::string EntriesText(const StoredBlock& block) {
  std::map<std::string, std::string> of_dtype;
  for (const StoredEntry& entry : block.entries) of_dtype[NameOf(entry.dtype)] += " " + entry.state;
  std::string text;
  for (const auto& [dtype, states] : of_dtype) text += Cat(text.empty() ? "" : ", ", dtype, states);
  return text;
}

// Returns the table cell for one kind of state of a parameter: its trace or norm, "damaged", or "-" if the parameter
// has no such state.
std::string CellOf(const StateSums& sums, const char* kind) {
  const auto found = sums.find(kind);
  if (found == sums.end()) return "-";
  if (found->second.damaged) return "damaged";
  return NumberText(IsTriangle(kind) ? found->second.trace : found->second.norm());
}

constexpr const char* kKinds[] = {"filtered_grad", "grafting", "momentum", "factor", "inverse"};

class TextReport : public Report {
 public:
  explicit TextReport(const Arguments& arguments) : arguments_(arguments) {
    table_.AddColumn("parameter", Table::Align::kLeft);
    table_.AddColumn("shape", Table::Align::kLeft);
    table_.AddColumn("dtype", Table::Align::kLeft);
    table_.AddColumn("group", Table::Align::kRight);
    table_.AddColumn("blocks", Table::Align::kRight);
    if (arguments.norms) {
      for (const char* kind : kKinds) table_.AddColumn(kind, Table::Align::kRight);
    }
    blocks_.AddColumn("block", Table::Align::kLeft);
    blocks_.AddColumn("shape", Table::Align::kLeft);
    blocks_.AddColumn("first", Table::Align::kRight);
    blocks_.AddColumn("strides", Table::Align::kLeft);
    blocks_.AddColumn("piece", Table::Align::kLeft);
    blocks_.AddColumn("file", Table::Align::kRight);
    blocks_.AddColumn("entries", Table::Align::kLeft);
  }

  void Begin(const Source& source, const CheckpointIndex& outline) override {
    outline_ = &outline;
    Print(Cat("checkpoint  ", source.path, "\n"));
    if (source.number > 0) {
      Print(Cat("number      ", source.number));
      if (source.complete.size() > 1) {
        Print(Cat(", the last of ", source.complete.size(), " in the directory: ", Listed(source.complete)));
      }
      Print(source.unfinished.empty() ? "\n" : Cat("; unfinished: ", Listed(source.unfinished), "\n"));
    }
    Print(Cat("format      ", outline.format, ", written by libshampoo ", outline.library, "\n"));
    Print(Cat("ranks       ", outline.world, "\n"));
    int64_t bytes = 0;
    for (const StoredFile& file : outline.files) bytes += file.bytes;
    Print(Cat("files       ", outline.files.size(), ", ", BytesText(bytes), "\n"));
    for (size_t g = 0; g < outline.groups.size(); ++g) {
      Print(Cat("group ", g, "     step ", outline.groups[g].step, ": ", ConfigText(outline.groups[g]), "\n"));
    }
  }

  void Add(const StoredParam& param, const std::vector<const StoredBlock*>& blocks, const StateSums* sums) override {
    std::vector<std::string> cells = {param.name, ShapeText(param.shape), NameOf(param.dtype), Cat(param.group),
                                      Cat(blocks.size())};
    if (sums != nullptr) {
      for (const char* kind : kKinds) cells.push_back(CellOf(*sums, kind));
    }
    table_.AddRow(std::move(cells));
    if (!arguments_.blocks) return;
    for (const StoredBlock* block : blocks) AddBlock(*block);
  }

  void End(const std::vector<std::string>&) override {
    Print(Cat("\n", table_.Text()));
    if (arguments_.norms) {
      Print("\nOver all blocks: 2-norms of filtered_grad, grafting and momentum, and traces of factor and inverse.\n");
    }
    if (!arguments_.blocks) return;
    for (size_t f = 0; f < outline_->files.size(); ++f) {
      Print(Cat(f == 0 ? "\n" : "", "file ", f, "  ", outline_->files[f].name, ", ", outline_->files[f].bytes,
                " bytes\n"));
    }
    Print(Cat("\n", blocks_.Text()));
  }

 private:
  void AddBlock(const StoredBlock& block) {
    const BlockPlace& place = block.place;
    std::string piece = "whole";
    if (!place.is_whole()) {
      piece = Cat(ShapeText(place.piece.extent), " at ", ShapeText(place.piece.offset), " of ",
                  ShapeText(place.piece.shape));
    }
    Shape strides = place.shape;
    strides.dims = place.stride;
    blocks_.AddRow({block.key, ShapeText(place.shape), Cat(place.first()), ShapeText(strides), piece, Cat(block.file),
                    EntriesText(block)});
  }

  const Arguments& arguments_;
  const CheckpointIndex* outline_ = nullptr;
  Table table_;
  Table blocks_;
};

}  // namespace

std::unique_ptr<Report> MakeTextReport(const Arguments& arguments) { return std::make_unique<TextReport>(arguments); }

}  // namespace shampoo::ckpt
