// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/save.h"

#include <memory>
#include <utility>

#include "core/base/amount.h"
#include "core/base/catch_exceptions.h"
#include "core/checkpoint/checkpoint_files.h"
#include "core/checkpoint/description.h"
#include "core/checkpoint/index_writer.h"
#include "core/checkpoint/local_share.h"
#include "core/checkpoint/ranks.h"
#include "core/comm/received.h"

namespace shampoo {
namespace {

// The work of one rank in one call of SaveCheckpoint().
class Save {
 public:
  Save(const CheckpointCall& call, const StatesWriter::Limits& limits)
      : call_(call), ranks_of_call_(call.world), ranks_(ranks_of_call_.ranks()), limits_(limits) {}

  Status Run() {
    const Status own = CatchExceptions([&]() -> Status {
      SHAMPOO_RETURN_IF_ERROR(CheckCall(call_));
      for (const OptimizerState* optimizer : call_.optimizers) {
        SHAMPOO_RETURN_IF_ERROR(optimizer->CheckUsable(optimizer->out()));
      }
      return ranks_.is_first() ? PrepareDirectory() : Status();
    });
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(own));
    SHAMPOO_RETURN_IF_ERROR(ranks_.BroadcastFromFirst(number_, &number_));
    SHAMPOO_RETURN_IF_ERROR(FindLocalShare(call_, ranks_, &share_));
    std::unique_ptr<StatesWriter> writer;
    const auto prepare = [&]() -> Status {
      SHAMPOO_RETURN_IF_ERROR(ranks_.CheckReceived({"number of the checkpoint", 0, number_}, 1, kLargestNumber + 1));
      writer = std::make_unique<StatesWriter>(call_.directory, number_, ranks_.rank(), ranks_.world(), limits_);
      index_path_ = PathIn(call_.directory, IndexName(number_));
      temporary_index_path_ = index_path_ + kTemporary;
      return {};
    };
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions(prepare)));
    Status status = CatchExceptions([&] { return Write(writer.get()); });
    if (!status.ok()) {
      // After a failed collective, this rank must keep its files: rank 0 may have published the checkpoint.
      if (call_.world != nullptr && call_.world->failed()) {
        return std::move(status).Within(
            "the save ended early, so the new checkpoint is complete or missing; a load takes the last complete one");
      }
      writer->Undo();
      if (ranks_.is_first()) (void)Remove(temporary_index_path_).ok();
      return std::move(status).Within("the save failed; earlier checkpoints are unchanged");
    }
    if (ranks_.is_first() && is_durable_) RemoveOlder();
    return {};
  }

 private:
  // Creates the directory, chooses the number of the new checkpoint, and removes unfinished checkpoints. Only rank 0
  // calls this function.
  Status PrepareDirectory() {
    SHAMPOO_RETURN_IF_ERROR(MakeDirectory(call_.directory));
    std::vector<FoundCheckpoint> found;
    SHAMPOO_RETURN_IF_ERROR(FindCheckpoints(call_.directory, &found));
    number_ = found.empty() ? 1 : found.front().number + 1;
    // A save whose process was killed leaves an incomplete checkpoint. The new save may need its disk space.
    for (const FoundCheckpoint& checkpoint : found) {
      if (!checkpoint.complete) SHAMPOO_RETURN_IF_ERROR(RemoveCheckpoint(call_.directory, checkpoint));
    }
    return {};
  }

  Status Write(StatesWriter* writer) {
    const int64_t bytes = share_.bytes();
    Progress progress("saving", bytes);
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions([&] { return writer->Write(&share_.blocks, &progress); })));
    SHAMPOO_RETURN_IF_ERROR(WriteIndex(writer->files()));
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions([&] { return ranks_.is_first() ? Publish() : Status(); })));
    if (ranks_.is_first()) {
      LogText(LogLevel::kInfo, [&] { return Cat("saved ", index_path_, ": rank 0 wrote ", BytesText(bytes)); });
    }
    return {};
  }

  // Gives the index its final name. If this function fails, the checkpoint does not exist, and all ranks remove their
  // files.
  Status Publish() {
    SHAMPOO_RETURN_IF_ERROR(Rename(temporary_index_path_, index_path_));
    Status status = SyncDirectory(call_.directory);
    if (status.ok()) return {};
    is_durable_ = false;
    if (!Remove(index_path_).ok()) return {};  // the index remains, so the checkpoint is complete
    // Make the removal of the index durable before the files of the checkpoint are removed.
    (void)SyncDirectory(call_.directory).ok();
    return status;
  }

  // Collects the descriptions of groups, parameters, files and blocks from all ranks. Rank 0 writes them to the index.
  // Collective: the ranks send their descriptions even if rank 0 cannot write.
  Status WriteIndex(const std::vector<StoredFile>& files) {
    IndexWriter index;
    Descriptions merged;
    Status status = CatchExceptions([&] {
      return ranks_.is_first() ? index.Create(temporary_index_path_, call_.library, ranks_.world()) : Status();
    });
    const auto merge = [&merged](int rank, const std::string& text) { merged.Add(rank, text); };
    const auto add = [&index](int, const std::string& text) { index.Add(text); };
    const auto description = [this](size_t i) { return share_.descriptions[i]; };
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(share_.descriptions.size(), description, merge, &status));
    const auto if_ok = [&status](auto&& write) {
      if (status.ok()) status = CatchExceptions([&] { return write(), Status(); });
    };
    if_ok([&] {
      index.Begin("groups");
      for (const StoredGroup& group : merged.groups()) index.Add(ToJson(group));
      index.Begin("parameters");
      for (const StoredParam& param : merged.params()) index.Add(ToJson(param));
      index.Begin("files");
    });
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(
        files.size(), [&](size_t i) { return ToJson(files[i]); }, add, &status));
    if_ok([&] { index.Begin("blocks"); });
    const auto block = [&](size_t i) {
      const BlockToSave& own = share_.blocks[i];
      return ToJson(own.stored, own.param, files[static_cast<size_t>(own.stored.file)].name);
    };
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(share_.blocks.size(), block, add, &status));
    if (ranks_.is_first()) {
      if (status.ok()) status = CatchExceptions([&] { return merged.status(); });
      if (status.ok()) status = CatchExceptions([&] { return index.Finish(); });
      if (status.ok()) status = CatchExceptions([&] { return CheckWritten(); });
    }
    return ranks_.Agree(status);
  }

  // Reads the new index as a load does, checks the number of saved elements of each parameter, and checks that rank 0
  // sees the files of all ranks.
  Status CheckWritten() const {
    CheckpointIndex index;
    std::vector<int64_t> held;
    SHAMPOO_RETURN_IF_ERROR(ReadIndex(
        temporary_index_path_,
        [&held](const CheckpointIndex& partial, const StoredBlock& block) {
          held.resize(partial.params.size(), 0);
          held[static_cast<size_t>(block.param)] += block.place.elements();
          return false;
        },
        &index));
    held.resize(index.params.size(), 0);
    for (size_t p = 0; p < held.size(); ++p) {
      const StoredParam& param = index.params[p];
      if (held[p] == param.elements()) continue;
      if (held[p] < param.elements()) {
        LogText(LogLevel::kWarning, [&] {
          return Cat("this save has ", held[p], " of the ", param.elements(), " elements of parameter \"", param.name,
                     "\", so the checkpoint can be loaded only into the same shards: to save the other elements, too, "
                     "pass a communicator of all ranks that have elements of the parameter");
        });
        continue;
      }
      return Invalid(
          "the blocks of parameter \"", param.name, "\" have ", held[p], " elements in total, but the parameter has ",
          param.elements(),
          ": several ranks have the same elements, but their optimizers have different parameters or blocks; "
          "create optimizers with equal plans on these ranks, or save into separate directories");
    }
    for (const StoredFile& stored : index.files) {
      // If the name had the number of another checkpoint, removing that checkpoint would remove this file, too.
      bool is_index = false;
      if (CheckpointNumber(stored.name, &is_index) != number_) {
        return CommFailed("another rank wrote \"", stored.name, "\" for checkpoint ", number_,
                          "; expected a name with this number", kCheckRanks);
      }
      File file;
      int64_t bytes = 0;
      SHAMPOO_RETURN_IF_ERROR(
          File::Open(index.PathOf(stored), &file)
              .Within("rank 0 does not see a file that another rank wrote (pass a directory that all "
                      "ranks share)"));
      SHAMPOO_RETURN_IF_ERROR(file.Size(&bytes));
      if (bytes != stored.bytes) {
        return IoFailed(file.path(), " has ", bytes, " bytes; expected the ", stored.bytes,
                        " bytes that another rank wrote: check the file system that the ranks share, and save again");
      }
    }
    return {};
  }

  // Removes older checkpoints, except those that the key checkpoint_keep keeps. The save has succeeded, so an error of
  // the removal is only logged.
  void RemoveOlder() const {
    int64_t keep = share_.keep;
    const Status status = CatchExceptions([&]() -> Status {
      std::vector<FoundCheckpoint> found;
      SHAMPOO_RETURN_IF_ERROR(FindCheckpoints(call_.directory, &found));
      for (const FoundCheckpoint& checkpoint : found) {
        if (checkpoint.complete && keep-- > 0) continue;
        SHAMPOO_RETURN_IF_ERROR(RemoveCheckpoint(call_.directory, checkpoint));
      }
      return {};
    });
    if (!status.ok()) {
      LogText(LogLevel::kWarning, [&] { return Cat("an older checkpoint could not be removed: ", status.message()); });
    }
  }

  const CheckpointCall& call_;
  RanksOfCall ranks_of_call_;
  const Ranks& ranks_;
  StatesWriter::Limits limits_;
  int64_t number_ = 0;
  std::string index_path_, temporary_index_path_;
  LocalShare share_;
  bool is_durable_ = true;
};

}  // namespace

Status SaveCheckpoint(const CheckpointCall& call, const StatesWriter::Limits& limits) {
  WorldStaging staging;
  SHAMPOO_RETURN_IF_ERROR(staging.Create(call));
  return Save(call, limits).Run();
}

}  // namespace shampoo
