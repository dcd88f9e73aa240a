// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/save.h"

#include <memory>
#include <utility>

#include "core/base/amount.h"
#include "core/base/catch_exceptions.h"
#include "core/checkpoint/description.h"
#include "core/checkpoint/index_writer.h"
#include "core/checkpoint/names.h"
#include "core/checkpoint/own_part.h"
#include "core/checkpoint/ranks.h"
#include "core/comm/received.h"

namespace shampoo {
namespace {

// One save on one rank.
class Save {
 public:
  Save(const CheckpointCall& call, const StatesWriter::Limits& limits)
      : call_(call), ranks_(call.world), limits_(limits) {}

  Status Run() {
    const Status own = CatchExceptions([&]() -> Status {
      SHAMPOO_RETURN_IF_ERROR(CheckCall(call_));
      for (const OptimizerState* optimizer : call_.optimizers) {
        SHAMPOO_RETURN_IF_ERROR(optimizer->CheckUsable(optimizer->out()));
      }
      return ranks_.is_first() ? PrepareDirectory() : Status();
    });
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(own));
    SHAMPOO_RETURN_IF_ERROR(ranks_.FromFirst(number_, &number_));
    SHAMPOO_RETURN_IF_ERROR(FindOwnPart(call_, ranks_, &part_));
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
      // After a lost collective ranks do not know of each other: one of them may have made it a checkpoint.
      if (call_.world != nullptr && call_.world->failed()) {
        return std::move(status).Within("the save ended early, with the last checkpoint or this one to be loaded");
      }
      writer->Undo();
      if (ranks_.is_first()) (void)Remove(temporary_index_path_).ok();
      return std::move(status).Within("the save failed, and earlier checkpoints are as they were");
    }
    if (ranks_.is_first() && is_durable_) RemoveOlder();
    return {};
  }

 private:
  // Rank 0's alone.
  Status PrepareDirectory() {
    SHAMPOO_RETURN_IF_ERROR(MakeDirectory(call_.directory));
    std::vector<FoundCheckpoint> found;
    SHAMPOO_RETURN_IF_ERROR(FindCheckpoints(call_.directory, &found));
    number_ = found.empty() ? 1 : found.front().number + 1;
    // Of saves that were killed: they take room that this one may need.
    for (const FoundCheckpoint& checkpoint : found) {
      if (!checkpoint.complete) SHAMPOO_RETURN_IF_ERROR(RemoveCheckpoint(call_.directory, checkpoint));
    }
    return {};
  }

  Status Write(StatesWriter* writer) {
    const int64_t bytes = part_.bytes();
    Progress progress("saving", bytes);
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions([&] { return writer->Write(&part_.blocks, &progress); })));
    SHAMPOO_RETURN_IF_ERROR(WriteIndex(writer->files()));
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(CatchExceptions([&] { return ranks_.is_first() ? Publish() : Status(); })));
    if (ranks_.is_first()) {
      LogText(LogLevel::kInfo, [&] { return Cat("saved ", index_path_, ": ", BytesText(bytes), " of rank 0"); });
    }
    return {};
  }

  // Makes it a checkpoint. If it fails there is no index: files of others may go.
  Status Publish() {
    SHAMPOO_RETURN_IF_ERROR(Rename(temporary_index_path_, index_path_));
    Status status = SyncDirectory(call_.directory);
    if (status.ok()) return {};
    is_durable_ = false;
    if (!Remove(index_path_).ok()) return {};   // what cannot be taken back is whole
    (void)SyncDirectory(call_.directory).ok();  // its files go next, and must not do so before it
    return status;
  }

  // All ranks send, whatever becomes of the file on rank 0.
  Status WriteIndex(const std::vector<StoredFile>& files) {
    IndexWriter index;
    Descriptions merged;
    Status status = CatchExceptions([&] {
      return ranks_.is_first() ? index.Create(temporary_index_path_, call_.library, ranks_.world()) : Status();
    });
    const auto merge = [&merged](int rank, const std::string& text) { merged.Add(rank, text); };
    const auto add = [&index](int, const std::string& text) { index.Add(text); };
    const auto description = [this](size_t i) { return part_.descriptions[i]; };
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(part_.descriptions.size(), description, merge, &status));
    const auto go_on = [&status](auto&& write) {
      if (status.ok()) status = CatchExceptions([&] { return write(), Status(); });
    };
    go_on([&] {
      index.Begin("groups");
      for (const StoredGroup& group : merged.groups()) index.Add(TextOf(group));
      index.Begin("parameters");
      for (const StoredParam& param : merged.params()) index.Add(TextOf(param));
      index.Begin("files");
    });
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(
        files.size(), [&](size_t i) { return TextOf(files[i]); }, add, &status));
    go_on([&] { index.Begin("blocks"); });
    const auto block = [&](size_t i) {
      const BlockToSave& own = part_.blocks[i];
      return TextOf(own.stored, own.param, files[static_cast<size_t>(own.stored.file)].name);
    };
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(part_.blocks.size(), block, add, &status));
    if (ranks_.is_first()) {
      if (status.ok()) status = CatchExceptions([&] { return merged.status(); });
      if (status.ok()) status = CatchExceptions([&] { return index.Finish(); });
      if (status.ok()) status = CatchExceptions([&] { return CheckWritten(); });
    }
    return ranks_.Agree(status);
  }

  // Reads the index as a load would, and looks whether the files of all ranks are where rank 0 sees them.
  Status CheckWritten() const {
    CheckpointIndex index;
    std::vector<int64_t> held;
    SHAMPOO_RETURN_IF_ERROR(ReadIndex(
        temporary_index_path_,
        [&held](const CheckpointIndex& told, const StoredBlock& block) {
          held.resize(told.params.size(), 0);
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
          return Cat("the ranks that save have ", held[p], " of the ", param.elements(), " elements of parameter \"",
                     param.name, "\": the checkpoint can be loaded into the same shards alone");
        });
        continue;
      }
      return Invalid("the blocks of parameter \"", param.name, "\" have ", held[p], " elements in all, and it has ",
                     param.elements(),
                     ": ranks work on the same elements in optimizers that are not the same; make "
                     "them alike, or save them into directories of their own");
    }
    for (const StoredFile& stored : index.files) {
      // What is not part of this checkpoint by its name is removed as left over.
      bool is_index = false;
      if (NumberOf(stored.name, &is_index) != number_) {
        return CommFailed("another rank has written \"", stored.name, "\" for checkpoint ", number_,
                          "; expected a name with this number", kCheckRanks);
      }
      File file;
      int64_t bytes = 0;
      SHAMPOO_RETURN_IF_ERROR(File::Open(index.PathOf(stored), &file)
                                  .Within("rank 0 does not see a file that another rank wrote, and all ranks need the "
                                          "same directory"));
      SHAMPOO_RETURN_IF_ERROR(file.Size(&bytes));
      if (bytes != stored.bytes) {
        return IoFailed(file.path(), " has ", bytes, " bytes, and ", stored.bytes, " were written");
      }
    }
    return {};
  }

  // The save has succeeded by now: what cannot be removed is told, and no failure.
  void RemoveOlder() const {
    int64_t keep = part_.keep;
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
      LogText(LogLevel::kWarning, [&] { return Cat("an older checkpoint stays: ", status.message()); });
    }
  }

  const CheckpointCall& call_;
  Ranks ranks_;
  StatesWriter::Limits limits_;
  int64_t number_ = 0;
  std::string index_path_, temporary_index_path_;
  OwnPart part_;
  bool is_durable_ = true;
};

}  // namespace

Status SaveCheckpoint(const CheckpointCall& call, const StatesWriter::Limits& limits) {
  WorldStaging staging;
  SHAMPOO_RETURN_IF_ERROR(staging.Create(call));
  return Save(call, limits).Run();
}

}  // namespace shampoo
