// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/load.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/amount.h"
#include "core/base/catch_exceptions.h"
#include "core/checkpoint/checkpoint_files.h"
#include "core/checkpoint/matching.h"
#include "core/checkpoint/progress.h"
#include "core/checkpoint/ranks.h"
#include "core/checkpoint/resharder.h"
#include "core/checkpoint/states_reader.h"
#include "core/plan/block_states.h"

namespace shampoo {
namespace {

// Restores the states of the optimizers after a failed load. If is_initial() of an optimizer was true before the load,
// its states are initialized again. The states of the other optimizers are copied before the load if their total size
// is small; otherwise they cannot be restored.
class StateBackup {
 public:
  explicit StateBackup(std::span<OptimizerState* const> optimizers) : optimizers_(optimizers) {
    int64_t bytes = 0;
    for (const OptimizerState* optimizer : optimizers) {
      was_initial_.push_back(optimizer->is_initial());
      if (!was_initial_.back()) bytes += optimizer->plan().state_bytes();
    }
    constexpr int64_t kMaxKept = int64_t{24} << 20;
    keeps_ = bytes <= kMaxKept;
    for (const OptimizerState* optimizer : optimizers) {
      if (keeps_) kept_.emplace_back(static_cast<size_t>(KeptBytes(*optimizer)));
      // The strings are allocated in advance, because memory may be exhausted when the load fails.
      constexpr size_t kReasonBytes = 1024;
      unusable_reasons_.emplace_back(
          "a failed load left a part of the checkpoint in the state: load a checkpoint, or create the optimizer again. "
          "The load failed with: ");
      unusable_reasons_.back().reserve(unusable_reasons_.back().size() + kReasonBytes);
    }
  }

  Status Keep() {
    for (size_t i = 0; i < kept_.size(); ++i) {
      SHAMPOO_RETURN_IF_ERROR(optimizers_[i]->Download(0, static_cast<int64_t>(kept_[i].size()), kept_[i].data()));
    }
    return {};
  }

  // Returns whether Restore() may fail. If so, all files must be checked before any state is written.
  bool NeedsCheckFirst() const {
    return std::find(was_initial_.begin(), was_initial_.end(), false) != was_initial_.end();
  }

  void Restore(const std::string& why) {
    for (size_t i = 0; i < optimizers_.size(); ++i) {
      OptimizerState* const optimizer = optimizers_[i];
      const bool restored =
          was_initial_[i] ? optimizer->Initialize().ok()
                          : keeps_ && optimizer->Upload(0, static_cast<int64_t>(kept_[i].size()), kept_[i].data()).ok();
      if (restored) continue;
      unusable_reasons_[i].append(why, 0, unusable_reasons_[i].capacity() - unusable_reasons_[i].size());
      optimizer->MarkUnusable(std::move(unusable_reasons_[i]));
    }
  }

 private:
  int64_t KeptBytes(const OptimizerState& optimizer) const {
    return optimizer.is_initial() ? 0 : optimizer.plan().state_bytes();
  }

  std::span<OptimizerState* const> optimizers_;
  std::vector<bool> was_initial_;
  bool keeps_ = false;
  std::vector<std::vector<char>> kept_;
  std::vector<std::string> unusable_reasons_;
};

// One load on one rank.
class Load {
 public:
  explicit Load(const CheckpointCall& call) : call_(call), ranks_of_call_(call.world), ranks_(ranks_of_call_.ranks()) {}

  Status Run() {
    int64_t number = 0;  // number of the checkpoint; 0 if call_.directory is the path of an index
    const Status own = CatchExceptions([&]() -> Status {
      SHAMPOO_RETURN_IF_ERROR(CheckCall(call_));
      return ranks_.is_first() ? ChooseCheckpoint(&number) : Status();
    });
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(own));
    SHAMPOO_RETURN_IF_ERROR(ranks_.BroadcastFromFirst(number, &number));
    const auto read = [&]() -> Status {
      SHAMPOO_RETURN_IF_ERROR(ranks_.CheckReceived({"number of the checkpoint", 0, number}, 0, kLargestNumber));
      return ReadAndMatch(number == 0 ? call_.directory : PathIn(call_.directory, IndexName(number)));
    };
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions(read)));
    SHAMPOO_RETURN_IF_ERROR(CheckSameIndex());
    SHAMPOO_RETURN_IF_ERROR(CheckAllParamsAreUsed());

    std::unique_ptr<StateBackup> backup;
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions([&] {
      backup = std::make_unique<StateBackup>(call_.optimizers);
      reader_ = std::make_unique<StatesReader>(index_);
      return backup->Keep();
    })));
    // If Restore() may fail on any rank, every rank checks the files that it loads before any rank writes a state.
    // Without this check, a rank could find an error after another rank has overwritten a state that cannot be
    // restored.
    const int64_t own_needs = backup->NeedsCheckFirst() ? 1 : 0;
    std::vector<int64_t> needs;
    SHAMPOO_RETURN_IF_ERROR(ranks_.AllGatherInts({&own_needs, 1}, &needs));
    const bool all_first = std::find(needs.begin(), needs.end(), 1) != needs.end();
    const auto check = [&]() -> Status {
      SHAMPOO_RETURN_IF_ERROR(ranks_.CheckAllReceived("file check flag", needs, 0, 1));
      return Check(all_first);
    };
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions(check)));
    Status status = CatchExceptions([&] { return ranks_.Agree(CatchExceptions([&] { return Apply(); })); });
    if (!status.ok()) {
      backup->Restore(status.message());
      return status;
    }
    for (OptimizerState* optimizer : call_.optimizers) optimizer->MarkReplaced();
    LogResult();
    return {};
  }

 private:
  // Sets *number to the number of the last complete checkpoint in call_.directory. Does not change *number if
  // call_.directory is a file. Only rank 0 calls this function.
  Status ChooseCheckpoint(int64_t* number) const {
    PathKind kind = PathKind::kNothing;
    SHAMPOO_RETURN_IF_ERROR(KindOf(call_.directory, &kind));
    if (kind == PathKind::kNothing) {
      return IoFailed(call_.directory,
                      " does not exist: expected the directory that a checkpoint was saved into, or the index of a "
                      "checkpoint (checkpoint-<number>.json); check the path");
    }
    if (kind == PathKind::kFile) return {};
    std::vector<FoundCheckpoint> found;
    SHAMPOO_RETURN_IF_ERROR(FindCheckpoints(call_.directory, &found));
    const auto complete =
        std::find_if(found.begin(), found.end(), [](const auto& checkpoint) { return checkpoint.complete; });
    if (complete == found.end()) {
      return IoFailed(call_.directory, found.empty() ? " has no checkpoint" : " has only unfinished checkpoints",
                      ": expected a file checkpoint-<number>.json, which every successful shampoo_save writes");
    }
    *number = complete->number;
    return {};
  }

  Status ReadAndMatch(const std::string& path) {
    matching_ = std::make_unique<Matching>(call_.optimizers);
    SHAMPOO_RETURN_IF_ERROR(ReadIndex(
        path, [this](const CheckpointIndex& index, const StoredBlock& block) { return matching_->Needs(index, block); },
        &index_));
    return matching_->Match(index_);
  }

  Status CheckSameIndex() const {
    int64_t of_first = 0;
    const auto own = static_cast<int64_t>(index_.checksum);
    SHAMPOO_RETURN_IF_ERROR(ranks_.BroadcastFromFirst(own, &of_first));
    return ranks_.Agree(CatchExceptions([&] {
      if (own == of_first) return Status();
      return IoFailed(index_.path, " is not the same file as on rank 0: pass a directory that all ranks share");
    }));
  }

  // Fails if the checkpoint has a parameter that no rank has.
  Status CheckAllParamsAreUsed() const {
    constexpr size_t kBits = 63;
    std::vector<int64_t> own;
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions([&] {
      own.assign(index_.params.size() / kBits + 1, 0);
      for (size_t p = 0; p < index_.params.size(); ++p) {
        if (matching_->HasParam(index_.params[p].name)) own[p / kBits] |= int64_t{1} << (p % kBits);
      }
      return Status();
    })));
    std::vector<int64_t> all;
    SHAMPOO_RETURN_IF_ERROR(ranks_.AllGatherInts(own, &all));
    for (size_t i = own.size(); i < all.size(); ++i) all[i % own.size()] |= all[i];
    std::string names;
    int64_t count = 0;
    for (size_t p = 0; p < index_.params.size(); ++p) {
      if ((all[p / kBits] >> (p % kBits) & 1) != 0) continue;
      if (++count <= 4) names += Cat(count > 1 ? ", " : "", "\"", index_.params[p].name, "\"");
    }
    if (count == 0) return {};
    return Invalid("no optimizer has these parameters of the checkpoint: ", names,
                   count > 4 ? Cat(" and ", count - 4, " more") : std::string(),
                   ": add them to an optimizer, or use the names that the parameters were saved with");
  }

  // Checks the elementwise states that are loaded into each Matching::ReshardedParam, because Apply() reads only ranges
  // of these states and cannot verify their checksums. If with_direct is true, also checks the entries of each
  // Matching::Direct. Apply() checks each entry of a Matching::Direct in any case, but only while it loads that entry.
  Status Check(bool with_direct) {
    int64_t bytes = 0;
    for (const Matching::Direct& direct : matching_->direct()) {
      for (const StateEntry* state : direct.states) bytes += PackedBytes(*state);
    }
    progress_ = std::make_unique<Progress>("loading", with_direct ? 2 * bytes : bytes);
    for (const Matching::ReshardedParam& resharded : matching_->resharded()) {
      for (const std::string_view name : kElementwiseStates) {
        const bool is_used = std::any_of(resharded.states.begin(), resharded.states.end(),
                                         [name](const StateEntry* state) { return state->state() == name; });
        for (const StoredBlock* source : resharded.sources) {
          if (is_used) SHAMPOO_RETURN_IF_ERROR(reader_->CheckElementwise(*source, *source->Find(name)));
        }
      }
    }
    return with_direct ? ForEachDirect(
                             [this](const Matching::Direct& direct, const StoredEntry& entry, const StateEntry& state) {
                               return reader_->Check(*direct.stored, entry, PackedBytes(state));
                             })
                       : Status();
  }

  template <typename Visit>
  Status ForEachDirect(Visit&& visit) {
    for (const Matching::Direct& direct : matching_->direct()) {
      for (const StateEntry* state : direct.states) {
        if (const StoredEntry* const entry = direct.stored->Find(state->state())) {
          SHAMPOO_RETURN_IF_ERROR(visit(direct, *entry, *state));
        }
        progress_->Add(PackedBytes(*state));
      }
    }
    return {};
  }

  // Clears the snapshots of blocks that were saved with root_async=0.
  Status ClearSnapshots() {
    for (const Matching::Direct& direct : matching_->direct()) {
      for (const StateEntry* state : direct.states) {
        if (direct.stored->Find(state->state()) != nullptr) continue;
        SHAMPOO_RETURN_IF_ERROR(direct.optimizer->Change(*state, &copy_, [&](char* memory) {
          std::fill_n(memory, state->span_bytes(), char{0});
          return Status();
        }));
      }
    }
    return {};
  }

  // Loads a state that is one number (gradient_count or lr_sum) into a block of a ReshardedParam. The state is equal in
  // all saved blocks of a parameter, unless an update of some of these blocks was skipped. LoadCount() uses the first
  // source that has the state.
  Status LoadCount(const Matching::ReshardedParam& resharded, int64_t block, std::string_view name) {
    for (const StateEntry& state : resharded.optimizer->entries()) {
      if (state.block != block || state.state() != name) continue;
      for (const StoredBlock* source : resharded.sources) {
        const StoredEntry* const entry = source->Find(name);
        if (entry == nullptr) continue;
        return resharded.optimizer->Change(state, &copy_,
                                           [&](char* memory) { return reader_->Load(*source, *entry, state, memory); });
      }
    }
    return {};
  }

  Status Apply() {
    const auto load = [this](const Matching::Direct& direct, const StoredEntry& entry, const StateEntry& state) {
      return direct.optimizer->Change(
          state, &copy_, [&](char* memory) { return reader_->Load(*direct.stored, entry, state, memory); });
    };
    SHAMPOO_RETURN_IF_ERROR(ClearSnapshots());
    SHAMPOO_RETURN_IF_ERROR(ForEachDirect(load));
    Resharder resharder(reader_.get());
    for (const Matching::ReshardedParam& resharded : matching_->resharded()) {
      SHAMPOO_RETURN_IF_ERROR(resharder.Load(index_, resharded));
      for (const int64_t block : resharded.blocks) {
        const Block& of_plan = resharded.optimizer->plan().blocks[static_cast<size_t>(block)];
        SHAMPOO_RETURN_IF_ERROR(resharded.optimizer->InitializeFactors(of_plan));
        if (!of_plan.is_preconditioned) SHAMPOO_RETURN_IF_ERROR(LoadCount(resharded, block, kGradientCount));
        SHAMPOO_RETURN_IF_ERROR(LoadCount(resharded, block, kLrSum));
      }
    }
    for (const Matching::Steps& steps : matching_->steps()) {
      SHAMPOO_RETURN_IF_ERROR(steps.optimizer->WriteSteps(static_cast<size_t>(steps.group), steps.steps));
    }
    // Record the results of all steps that are in the stream, including steps in CUDA graphs. The writes above have
    // waited for these steps. MarkReplaced() then discards the errors of exactly these steps on every rank.
    for (OptimizerState* optimizer : call_.optimizers) {
      SHAMPOO_RETURN_IF_ERROR(optimizer->FinishSteps(call_.stream));
    }
    return {};
  }

  void LogResult() const {
    const int64_t reset = matching_->reset_blocks();
    if (reset > 0) {
      LogText(LogLevel::kWarning, [&] {
        return Cat("on_block_mismatch=reset: the checkpoint does not have ", reset, " of ",
                   reset + static_cast<int64_t>(matching_->direct().size()),
                   " blocks of this rank; their factor matrices, and their moments if these are in eigenbases, are "
                   "initialized again");
      });
    }
    for (const std::string& warning : matching_->warnings()) {
      LogText(LogLevel::kWarning, [&] { return warning; });
    }
    if (!ranks_.is_first()) return;
    LogText(LogLevel::kInfo, [&] {
      return Cat("loaded ", index_.path, ", saved by ", CountText(index_.world, "rank"), " with libshampoo ",
                 index_.library);
    });
  }

  const CheckpointCall& call_;
  RanksOfCall ranks_of_call_;
  const Ranks& ranks_;
  CheckpointIndex index_;
  std::unique_ptr<Matching> matching_;
  std::unique_ptr<StatesReader> reader_;
  std::unique_ptr<Progress> progress_;
  std::vector<char> copy_;  // host copy of a state that is in device memory
};

}  // namespace

Status LoadCheckpoint(const CheckpointCall& call) {
  WorldStaging staging;
  SHAMPOO_RETURN_IF_ERROR(staging.Create(call));
  return Load(call).Run();
}

}  // namespace shampoo
