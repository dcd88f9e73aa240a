// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/save.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/caught.h"
#include "core/base/hash.h"
#include "core/checkpoint/description.h"
#include "core/checkpoint/index_writer.h"
#include "core/checkpoint/names.h"
#include "core/checkpoint/ranks.h"

namespace shampoo {
namespace {

// Of a parameter that every shard rank has whole, and works on by itself, one saves the states.
bool Saves(const PlanData& plan, const Block& block) {
  const bool on_every_shard = !plan.gathers && !block.piece_of_shard;
  return plan.Owns(block) && (!on_every_shard || plan.placement.shard_rank == 0);
}

std::vector<BlockToSave> BlocksOf(const Optimizer& optimizer) {
  const PlanData& plan = optimizer.plan();
  std::vector<BlockToSave> blocks;
  int64_t last = -1;
  for (const StateEntry& entry : optimizer.entries()) {
    if (entry.block < 0) continue;
    const Block& block = plan.blocks[static_cast<size_t>(entry.block)];
    if (!Saves(plan, block)) continue;
    if (entry.block != last) {
      last = entry.block;
      const ParamDesc& desc = plan.params[static_cast<size_t>(block.param)].desc;
      BlockToSave& made = blocks.emplace_back();
      made.arena = optimizer.arena();
      made.param = desc.name;
      made.stored.place = BlockPlace::Of(desc, block);
      // Pieces of shards are numbered on each rank; the first element is nobody else's.
      made.stored.key =
          Cat(desc.name, "/", made.stored.place.is_whole() ? Cat(block.index) : Cat("@", made.stored.place.first()));
    }
    blocks.back().entries.push_back(&entry);
  }
  return blocks;
}

int64_t HashOf(const std::vector<std::string>& texts) {
  StreamHash hash;
  for (const std::string& text : texts) hash.Add(text.data(), text.size() + 1);
  return static_cast<int64_t>(hash.value());
}

int64_t HashOf(const std::vector<BlockToSave>& blocks) {
  StreamHash hash;
  for (const BlockToSave& block : blocks) {
    const int64_t first = block.stored.place.first();
    hash.Add(block.param.data(), block.param.size() + 1);
    hash.Add(&first, sizeof first);
    hash.Add(block.stored.place.shape.dims.data(), sizeof block.stored.place.shape.dims);
  }
  return static_cast<int64_t>(hash.value());
}

// One save on one rank.
class Save {
 public:
  Save(const CheckpointCall& call, const StatesWriter::Limits& limits)
      : call_(call), ranks_(call.world), limits_(limits) {}

  Status Run() {
    Status own = CheckOptimizers(call_);
    for (const Optimizer* optimizer : call_.optimizers) {
      if (own.ok()) own = optimizer->CheckState();
    }
    if (own.ok() && ranks_.is_first()) own = Caught([&] { return PrepareDirectory(); });
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(own));
    SHAMPOO_RETURN_IF_ERROR(ranks_.FromFirst(number_, &number_));
    SHAMPOO_RETURN_IF_ERROR(ChooseTellers());
    StatesWriter writer(call_.directory, number_, ranks_.rank(), ranks_.world(), limits_);
    Status status = Write(&writer);
    if (!status.ok()) {
      // After a lost collective ranks do not know of each other: one of them may have made it a checkpoint.
      if (call_.world == nullptr || !call_.world->failed()) writer.Undo();
      return std::move(status).Within("the save failed, and earlier checkpoints are as they were");
    }
    if (ranks_.is_first()) RemoveOlder();
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

  // What several ranks have, the first of them tells: descriptions of optimizers, and, where copies do not share the
  // work, blocks.
  Status ChooseTellers() {
    const auto own_count = static_cast<int64_t>(call_.optimizers.size());
    std::vector<int64_t> counts;
    SHAMPOO_RETURN_IF_ERROR(ranks_.Numbers({&own_count, 1}, &counts));
    const auto most = static_cast<size_t>(*std::max_element(counts.begin(), counts.end()));
    std::vector<int64_t> own(2 * most, 0);
    std::vector<std::vector<std::string>> texts;
    std::vector<std::vector<BlockToSave>> blocks;
    Status status = Caught([&]() -> Status {
      for (size_t i = 0; i < call_.optimizers.size(); ++i) {
        const Optimizer& optimizer = *call_.optimizers[i];
        texts.push_back(DescriptionTexts(optimizer, 0));
        blocks.push_back(BlocksOf(optimizer));
        own[2 * i] = HashOf(texts[i]);
        own[2 * i + 1] = HashOf(blocks[i]);
      }
      return {};
    });
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(status));
    std::vector<int64_t> all;
    SHAMPOO_RETURN_IF_ERROR(ranks_.Numbers(own, &all));
    // Whether an earlier rank has the same at this or another place.
    const auto is_told = [&](size_t kind, int64_t hash) {
      for (size_t rank = 0; rank < static_cast<size_t>(ranks_.rank()); ++rank) {
        for (size_t i = 0; i < static_cast<size_t>(counts[rank]); ++i) {
          if (all[2 * (rank * most + i) + kind] == hash) return true;
        }
      }
      return false;
    };
    for (size_t i = 0; i < call_.optimizers.size(); ++i) {
      if (!is_told(0, own[2 * i])) {
        for (std::string& text : DescriptionTexts(*call_.optimizers[i], static_cast<int>(i))) {
          descriptions_.push_back(std::move(text));
        }
      }
      if (!is_told(1, own[2 * i + 1])) std::move(blocks[i].begin(), blocks[i].end(), std::back_inserter(blocks_));
    }
    return {};
  }

  Status Write(StatesWriter* writer) {
    int64_t bytes = 0;
    for (const BlockToSave& block : blocks_) bytes += block.bytes();
    Progress progress("saving", bytes);
    std::vector<std::string> files;
    std::vector<std::string> blocks;
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(Caught([&] { return WriteOwn(writer, &progress, &files, &blocks); })));
    SHAMPOO_RETURN_IF_ERROR(WriteIndex(files, blocks));
    SHAMPOO_RETURN_IF_ERROR(ranks_.Agree(ranks_.is_first() ? Publish() : Status()));
    if (ranks_.is_first()) {
      LogText(LogLevel::kInfo, [&] {
        return Cat("saved ", PathIn(call_.directory, IndexName(number_)), ": ", bytes >> 20, " MiB of rank 0");
      });
    }
    return {};
  }

  // This rank's files, and what the index is to say of them.
  Status WriteOwn(StatesWriter* writer, Progress* progress, std::vector<std::string>* files,
                  std::vector<std::string>* blocks) {
    SHAMPOO_RETURN_IF_ERROR(writer->Write(&blocks_, progress));
    for (const StoredFile& file : writer->files()) files->push_back(TextOf(file));
    for (const BlockToSave& block : blocks_) {
      blocks->push_back(
          TextOf(block.stored, block.param, writer->files()[static_cast<size_t>(block.stored.file)].name));
    }
    return {};
  }

  // Makes it a checkpoint. If it fails there is no index: files of others may go.
  Status Publish() const {
    const std::string path = PathIn(call_.directory, IndexName(number_));
    Status status = Rename(path + kTemporary, path);
    if (!status.ok()) {
      (void)Remove(path + kTemporary).ok();
      return status;
    }
    status = SyncDirectory(call_.directory);
    if (status.ok() || !Remove(path).ok()) return {};  // what cannot be taken back is whole
    return status;
  }

  // All ranks send, whatever becomes of the file on rank 0.
  Status WriteIndex(const std::vector<std::string>& files, const std::vector<std::string>& blocks) {
    const std::string path = PathIn(call_.directory, IndexName(number_)) + kTemporary;
    IndexWriter index;
    Descriptions merged;
    Status status;
    if (ranks_.is_first()) status = index.Create(path, call_.library, ranks_.world());
    const auto merge = [&merged](int rank, const std::string& text) { merged.Add(rank, text); };
    const auto add = [&index](int, const std::string& text) { index.Add(text); };
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(descriptions_, merge, &status));
    index.Begin("groups");
    for (const StoredGroup& group : merged.groups()) index.Add(TextOf(group));
    index.Begin("parameters");
    for (const StoredParam& param : merged.params()) index.Add(TextOf(param));
    index.Begin("files");
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(files, add, &status));
    index.Begin("blocks");
    SHAMPOO_RETURN_IF_ERROR(ranks_.Collect(blocks, add, &status));
    if (ranks_.is_first()) {
      if (status.ok()) status = merged.status();
      if (status.ok()) status = Caught([&] { return index.Finish(); });
      if (status.ok()) status = Caught([&] { return CheckWritten(path); });
      if (!status.ok()) (void)Remove(path).ok();
    }
    return ranks_.Agree(status);
  }

  // Reads the index as a load would, and looks whether the files of all ranks are where rank 0 sees them.
  Status CheckWritten(const std::string& path) const {
    CheckpointIndex index;
    std::vector<int64_t> held;
    SHAMPOO_RETURN_IF_ERROR(ReadIndex(
        path,
        [&held](const CheckpointIndex& told, const StoredBlock& block) {
          held.resize(told.params.size(), 0);
          held[static_cast<size_t>(block.param)] += block.place.elements();
          return false;
        },
        &index));
    for (size_t p = 0; p < held.size(); ++p) {
      const StoredParam& param = index.params[p];
      if (held[p] <= param.elements()) continue;
      return Invalid("the blocks of parameter \"", param.name, "\" have ", held[p], " elements in all, and it has ",
                     param.elements(),
                     ": ranks work on the same elements in optimizers that are not the same; make "
                     "them alike, or save them into directories of their own");
    }
    for (const StoredFile& stored : index.files) {
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
    int64_t keep = 1;
    for (const Optimizer* optimizer : call_.optimizers) {
      keep = std::max(keep, optimizer->SettingsOf(0).checkpoint_keep);
    }
    const Status status = Caught([&]() -> Status {
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
  std::vector<std::string> descriptions_;
  std::vector<BlockToSave> blocks_;
};

}  // namespace

Status CheckOptimizers(const CheckpointCall& call) {
  if (!call.given.ok()) return call.given.Copy();
  std::set<std::string_view> names;
  int64_t world = 1;
  for (const Optimizer* optimizer : call.optimizers) {
    const PlanData& plan = optimizer->plan();
    world = std::max(world, int64_t{plan.placement.replica_world} * plan.placement.shard_world);
    for (const Param& param : plan.params) {
      if (names.insert(param.desc.name).second) continue;
      return Invalid("parameter \"", param.desc.name,
                     "\" is in two of the optimizers, or one was given twice: names are unique in a checkpoint");
    }
  }
  const int64_t given = call.world != nullptr ? call.world->world() : 1;
  if (given < world) {
    return Invalid(call.world == nullptr ? "world is NULL" : Cat("world has ", given, " ranks"),
                   ", and an optimizer has ", world,
                   " replicas and shards: give a communicator of all ranks of the job");
  }
  if (call.world != nullptr && call.world->takes_device_memory()) {
    return Unsupported("world takes memory of a GPU: give a communicator whose device_type is SHAMPOO_CPU");
  }
  return {};
}

Status SaveCheckpoint(const CheckpointCall& call, const StatesWriter::Limits& limits) {
  if (call.world != nullptr && call.world->failed()) return call.world->FailedBefore();
  return Save(call, limits).Run();
}

}  // namespace shampoo
