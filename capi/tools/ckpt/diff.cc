// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/diff.h"

#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "capi/tools/ckpt/param_diff.h"
#include "capi/tools/ckpt/source.h"
#include "capi/tools/ckpt/table.h"
#include "core/base/amount.h"
#include "core/plan/shape.h"

namespace shampoo::ckpt {
namespace {

// One of the two checkpoints that are compared. source.h explains outline and counts.
struct Side {
  Source source;
  CheckpointIndex outline;
  std::vector<int64_t> counts;
  std::map<std::string, int> by_name;

  Status Open(const std::string& path) {
    SHAMPOO_RETURN_IF_ERROR(Locate(path, &source));
    SHAMPOO_RETURN_IF_ERROR(ReadOutline(source, &outline, &counts));
    for (size_t p = 0; p < outline.params.size(); ++p) by_name[outline.params[p].name] = static_cast<int>(p);
    return {};
  }
  int Find(const std::string& name) const {
    const auto found = by_name.find(name);
    return found == by_name.end() ? -1 : found->second;
  }
};

class CheckpointDiff {
 public:
  explicit CheckpointDiff(const Arguments& arguments) : arguments_(arguments), progress_("diff", arguments.progress) {
    table_.AddColumn("parameter", Table::Align::kLeft);
    table_.AddColumn("state", Table::Align::kLeft);
    for (const char* title : {"elements", "different", "largest", "relative"}) {
      table_.AddColumn(title, Table::Align::kRight);
    }
  }

  Status Run(ExitCode* exit) {
    SHAMPOO_RETURN_IF_ERROR(a_.Open(arguments_.paths[0]));
    SHAMPOO_RETURN_IF_ERROR(b_.Open(arguments_.paths[1]));
    std::fputs(Cat("A  ", a_.source.path, "\nB  ", b_.source.path, "\n").c_str(), stdout);
    DiffParams();
    DiffGroups();
    for (const StoredFile& file : a_.outline.files) progress_.Expect(file.bytes);
    SHAMPOO_RETURN_IF_ERROR(
        ForEachBatch(a_.source, a_.outline, a_.counts, [this](const Batch& batch) { return DiffStates(batch); }));
    progress_.Finish();
    Conclude();
    *exit = notes_ == 0 && different_states_ == 0 ? kSuccess : kProblemFound;
    return {};
  }

 private:
  void Note(const std::string& text) {
    progress_.Clear();
    ++notes_;
    std::fputs((text + "\n").c_str(), stdout);
  }

  void DiffParams() {
    const auto only_in = [this](const Side& in, const Side& other, const char* name) {
      for (const StoredParam& param : in.outline.params) {
        if (other.Find(param.name) >= 0) continue;
        Note(Cat("only in ", name, ": \"", param.name, "\", ", ShapeText(param.shape), " ", NameOf(param.dtype)));
      }
    };
    only_in(a_, b_, "A");
    only_in(b_, a_, "B");
    for (const StoredParam& a : a_.outline.params) {
      const int at = b_.Find(a.name);
      if (at < 0) continue;
      const StoredParam& b = b_.outline.params[static_cast<size_t>(at)];
      groups_.emplace(a.group, b.group);
      if (a.shape != b.shape) {
        Note(Cat("\"", a.name, "\": shape is ", ShapeText(a.shape), " in A, ", ShapeText(b.shape), " in B"));
      }
      if (a.dtype != b.dtype) {
        Note(Cat("\"", a.name, "\": dtype is ", NameOf(a.dtype), " in A, ", NameOf(b.dtype), " in B"));
      }
    }
  }

  // Compares a group of A with a group of B if both groups contain a parameter of the same name.
  void DiffGroups() {
    for (const auto& [a_group, b_group] : groups_) {
      const StoredGroup& a = a_.outline.groups[static_cast<size_t>(a_group)];
      const StoredGroup& b = b_.outline.groups[static_cast<size_t>(b_group)];
      const std::string name =
          a_group == b_group ? Cat("group ", a_group) : Cat("group ", a_group, " of A, ", b_group, " of B");
      if (a.step != b.step) Note(Cat(name, ": step is ", a.step, " in A, ", b.step, " in B"));
      std::set<std::string> keys;
      for (const StoredGroup* group : {&a, &b}) {
        for (const auto& [key, value] : group->config) keys.insert(key);
      }
      for (const std::string& key : keys) {
        const std::string* const in_a = a.Value(key);
        const std::string* const in_b = b.Value(key);
        if (in_a != nullptr && in_b != nullptr && *in_a == *in_b) continue;
        const auto text = [](const std::string* value) { return value != nullptr ? *value : "not stored"; };
        Note(Cat(name, ": ", key, " is ", text(in_a), " in A, ", text(in_b), " in B"));
      }
    }
  }

  Status DiffStates(const Batch& batch) {
    // For each parameter of the batch, its index in B, or -1 if B has no parameter of the same name and shape.
    std::vector<int> b_params(batch.size(), -1);
    std::map<int, std::vector<const StoredBlock*>> b_blocks;
    for (size_t position = 0; position < batch.size(); ++position) {
      const int at = b_.Find(batch.ParamAt(position).name);
      if (at < 0 || b_.outline.params[static_cast<size_t>(at)].shape != batch.ParamAt(position).shape) continue;
      b_params[position] = at;
      b_blocks[at];  // adds an empty list, so that ReadBlocks() reads the blocks of this parameter
    }
    CheckpointIndex b_index;
    SHAMPOO_RETURN_IF_ERROR(ReadBlocks(
        b_.source, b_.outline,
        [&](const CheckpointIndex&, const StoredBlock& block) { return b_blocks.contains(block.param); }, &b_index));
    for (const StoredBlock& block : b_index.blocks) b_blocks[block.param].push_back(&block);
    const auto a_blocks = BlocksByParam(batch);
    StatesReader a_reader(batch.index);
    StatesReader b_reader(b_index);
    StateComparer comparer(&a_reader, &b_reader, &progress_);
    for (size_t position = 0; position < batch.size(); ++position) {
      if (b_params[position] < 0) continue;
      SortByPlace(&b_blocks[b_params[position]]);
      ParamDiff diff;
      SHAMPOO_RETURN_IF_ERROR(
          DiffParam(batch.ParamAt(position), a_blocks[position], b_blocks[b_params[position]], &comparer, &diff));
      AddDiff(batch.ParamAt(position), diff);
    }
    return {};
  }

  void AddDiff(const StoredParam& param, const ParamDiff& diff) {
    ++compared_params_;
    for (const std::string& note : diff.notes) Note(Cat("\"", param.name, "\": ", note));
    for (const auto& [state, difference] : diff.states) {
      ++compared_states_;
      if (difference.different == 0) continue;
      ++different_states_;
      table_.AddRow({param.name, state, Cat(difference.compared), Cat(difference.different),
                     NumberText(difference.absolute), NumberText(difference.relative)});
    }
  }

  void Conclude() const {
    std::string text;
    if (!table_.empty()) text = Cat("\n", table_.Text(), "\n");
    if (notes_ == 0 && different_states_ == 0) {
      text += Cat("the same: ", CountText(compared_states_, "state"), " of ", CountText(compared_params_, "parameter"),
                  "\n");
    } else {
      text += Cat("different: ", different_states_, " of ", compared_states_, " states that were compared in ",
                  compared_params_, " parameters; other differences: ", notes_, "\n");
    }
    std::fputs(text.c_str(), stdout);
  }

  const Arguments& arguments_;
  ProgressLine progress_;
  Side a_, b_;
  std::set<std::pair<int, int>> groups_;
  Table table_;
  int64_t notes_ = 0, compared_params_ = 0, compared_states_ = 0, different_states_ = 0;
};

}  // namespace

Status Diff(const Arguments& arguments, ExitCode* exit) { return CheckpointDiff(arguments).Run(exit); }

}  // namespace shampoo::ckpt
