// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/local_share.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "core/base/catch_exceptions.h"
#include "core/base/hash.h"
#include "core/checkpoint/description.h"
#include "core/checkpoint/duplicates.h"
#include "core/comm/received.h"
#include "core/config/keys.h"

namespace shampoo {
namespace {

// The other ranks that may have the same block as this rank.
enum class DuplicatesOn {
  kCopies,  // ranks that have all blocks of this rank's optimizer
  kShards,  // shard ranks that, like this rank, hold the whole parameter of the block
};

DuplicatesOn DuplicatesOf(const PlanData& plan, const Block& block) {
  const bool piece_is_whole = !plan.gathers && plan.placement.shard_world > 1 && !block.piece_of_shard;
  return piece_is_whole ? DuplicatesOn::kShards : DuplicatesOn::kCopies;
}

// Returns whether the plan says that every shard rank has the whole parameter. The first shard rank saves the blocks of
// such a parameter.
bool IsWholeOnShards(const PlanData& plan, const Block& block) {
  return DuplicatesOf(plan, block) == DuplicatesOn::kShards && plan.param(block).desc.form == ShardForm::kWhole;
}

std::vector<BlockToSave> BlocksOf(const OptimizerState& optimizer, DuplicatesOn kind) {
  const PlanData& plan = optimizer.plan();
  std::vector<BlockToSave> blocks;
  int64_t last = -1;
  for (const StateEntry& entry : optimizer.entries()) {
    if (entry.block < 0) continue;
    const Block& block = plan.block(entry.block);
    if (IsWholeOnShards(plan, block)) {
      if (plan.placement.shard_rank != 0 || kind != DuplicatesOn::kCopies) continue;
    } else if (DuplicatesOf(plan, block) != kind) {
      continue;
    }
    if (entry.block != last) {
      last = entry.block;
      const ParamDesc& desc = plan.param(block).desc;
      BlockToSave& made = blocks.emplace_back();
      made.optimizer = &optimizer;
      made.param = desc.name;
      made.stored.place = BlockPlace::Of(desc, block);
      // If a rank has only a piece of the parameter, it numbers the blocks of its piece separately. The key then
      // contains the position of the block's first element, which is unique, instead of the number of the block.
      made.stored.key =
          Cat(desc.name, "/", made.stored.place.is_whole() ? Cat(block.index) : Cat("@", made.stored.place.first()));
    }
    blocks.back().entries.push_back(&entry);
  }
  return blocks;
}

int64_t HashTexts(const std::vector<std::string>& texts) {
  StreamHash hash;
  for (const std::string& text : texts) hash.Add(text.data(), text.size() + 1);
  return static_cast<int64_t>(hash.value());
}

int64_t HashPlaces(std::span<const BlockToSave> blocks) {
  StreamHash hash;
  for (const BlockToSave& block : blocks) {
    const int64_t first = block.stored.place.first();
    hash.Add(block.param.data(), block.param.size() + 1);
    hash.Add(&first, sizeof first);
    hash.Add(block.stored.place.shape.dims.data(), sizeof block.stored.place.shape.dims);
  }
  return static_cast<int64_t>(hash.value());
}

// Hashes the first and the last elements of each state. If the state is a symmetric matrix, hashes only the first
// elements. In practice, two different parameters with the same name have equal hashes only if neither has ever had a
// nonzero gradient at the hashed elements.
Status HashContents(std::span<const BlockToSave> blocks, int64_t* contents) {
  constexpr int64_t kSample = int64_t{32} << 10;
  StreamHash hash;
  std::vector<char> rows(kSample);
  std::vector<char> copy;
  for (const BlockToSave& block : blocks) {
    for (const StateEntry* entry : block.entries) {
      const char* memory = nullptr;
      SHAMPOO_RETURN_IF_ERROR(block.optimizer->View(*entry, &copy, &memory));
      const int64_t count = PackedRows(*entry);
      const int64_t most = kSample / static_cast<int64_t>(SizeOf(entry->dtype));
      const auto add = [&](int64_t first, int64_t last) {
        PackRows(*entry, memory, first, last, rows.data());
        const int64_t elements = PackedBefore(*entry, last) - PackedBefore(*entry, first);
        hash.Add(rows.data(), static_cast<size_t>(elements) * SizeOf(entry->dtype));
      };
      if (count == 0) continue;
      const int64_t last = LastRowWithin(*entry, 0, most);
      add(0, last);
      if (!entry->symmetric() && last < count) add(std::max(last, count - most), count);
    }
  }
  *contents = static_cast<int64_t>(hash.value());
  return {};
}

Status CheckSame(const Duplicates& duplicates, const std::vector<const BlockToSave*>& first_blocks, int rank) {
  if (duplicates.differs_from < 0) return {};
  const BlockToSave* const first = first_blocks[duplicates.differs_in];
  if (first == nullptr) {
    return CommFailed("rank ", rank, " received from rank ", duplicates.differs_from,
                      " a checksum of the blocks of an optimizer that has no blocks on rank ", rank, kCheckRanks);
  }
  return Invalid(
      "ranks ", duplicates.differs_from, " and ", rank, " both have parameter \"", first->param,
      "\", but the states of this parameter, or of a later parameter of the same optimizer, differ: if the two "
      "ranks have different parameters with one name, give each its own name; if they have copies of one parameter, "
      "use the same gradients on both ranks");
}

}  // namespace

int64_t LocalShare::bytes() const {
  int64_t sum = 0;
  for (const BlockToSave& block : blocks) sum += block.bytes();
  return sum;
}

Status FindLocalShare(const CheckpointCall& call, const Ranks& ranks, LocalShare* share) {
  // Each optimizer has two items (see duplicates.h): its descriptions, and the blocks that BlocksOf() returns for
  // kCopies. The items of all optimizers are followed by one item for each block that BlocksOf() returns for kShards.
  std::vector<std::vector<std::string>> texts;
  std::vector<std::vector<BlockToSave>> blocks;
  std::vector<BlockToSave> shared;
  std::vector<Item> items;
  std::vector<const BlockToSave*> first_blocks;  // by item: its first block, or nullptr if it has no block
  const auto add = [&](std::span<const BlockToSave> saved) -> Status {
    items.push_back({HashPlaces(saved), 0});
    return ranks.world() > 1 ? HashContents(saved, &items.back().contents) : Status();
  };
  const auto collect = [&]() -> Status {
    for (const OptimizerState* optimizer : call.optimizers) {
      share->keep = std::max(share->keep, optimizer->hyper_parameters().settings(0).checkpoint_keep);
      SHAMPOO_RETURN_IF_ERROR(DescriptionTexts(*optimizer, 0, &texts.emplace_back()));
      blocks.push_back(BlocksOf(*optimizer, DuplicatesOn::kCopies));
      for (BlockToSave& block : BlocksOf(*optimizer, DuplicatesOn::kShards)) shared.push_back(std::move(block));
      items.push_back({HashTexts(texts.back())});
      SHAMPOO_RETURN_IF_ERROR(add(blocks.back()));
      first_blocks.push_back(nullptr);
      first_blocks.push_back(blocks.back().empty() ? nullptr : blocks.back().data());
    }
    for (const BlockToSave& block : shared) {
      SHAMPOO_RETURN_IF_ERROR(add({&block, 1}));
      first_blocks.push_back(&block);
    }
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(ranks.Agree(CatchExceptions(collect)));
  std::vector<int64_t> keeps;
  SHAMPOO_RETURN_IF_ERROR(ranks.AllGatherInts({&share->keep, 1}, &keeps));
  Duplicates duplicates;
  SHAMPOO_RETURN_IF_ERROR(FindDuplicates(ranks, items, &duplicates));
  return ranks.Agree(CatchExceptions([&] {
    const auto most = static_cast<int64_t>(FindKey("checkpoint_keep")->most);
    SHAMPOO_RETURN_IF_ERROR(ranks.CheckAllReceived("checkpoint_keep", keeps, 1, most));
    share->keep = std::max(share->keep, *std::max_element(keeps.begin(), keeps.end()));
    SHAMPOO_RETURN_IF_ERROR(CheckSame(duplicates, first_blocks, ranks.rank()));
    const size_t count = call.optimizers.size();
    for (size_t i = 0; i < count; ++i) {
      if (!duplicates.is_duplicate[2 * i]) {
        std::vector<std::string> own;
        SHAMPOO_RETURN_IF_ERROR(DescriptionTexts(*call.optimizers[i], static_cast<int>(i), &own));
        std::move(own.begin(), own.end(), std::back_inserter(share->descriptions));
      }
      if (duplicates.is_duplicate[2 * i + 1]) continue;
      std::move(blocks[i].begin(), blocks[i].end(), std::back_inserter(share->blocks));
    }
    for (size_t i = 0; i < shared.size(); ++i) {
      if (!duplicates.is_duplicate[2 * count + i]) share->blocks.push_back(std::move(shared[i]));
    }
    return Status();
  }));
}

}  // namespace shampoo
