// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/source.h"

#include <algorithm>

#include "core/checkpoint/checkpoint_files.h"

namespace shampoo::ckpt {
namespace {

// The largest number of blocks in a batch of several parameters. A batch of one parameter may have more blocks.
constexpr int64_t kMaxBatchBlocks = 1 << 14;

std::string FileNameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

Status Locate(const std::string& path, Source* source) {
  PathKind kind = PathKind::kNothing;
  SHAMPOO_RETURN_IF_ERROR(KindOf(path, &kind));
  if (kind == PathKind::kNothing) {
    return IoFailed(path,
                    " does not exist: expected a directory with checkpoints, or the index file of a checkpoint "
                    "(checkpoint-<number>.json)");
  }
  if (kind == PathKind::kFile) {
    bool is_index = false;
    const int64_t number = CheckpointNumber(FileNameOf(path), &is_index);
    source->path = path;
    source->number = is_index ? number : 0;
    return {};
  }
  std::vector<FoundCheckpoint> found;
  SHAMPOO_RETURN_IF_ERROR(FindCheckpoints(path, &found));
  std::reverse(found.begin(), found.end());
  for (const FoundCheckpoint& checkpoint : found) {
    (checkpoint.complete ? source->complete : source->unfinished).push_back(checkpoint.number);
  }
  if (source->complete.empty()) {
    return IoFailed(path, found.empty() ? " has no checkpoint" : " has only unfinished checkpoints",
                    ": expected a file checkpoint-<number>.json, which every successful shampoo_save writes");
  }
  source->number = source->complete.back();
  source->path = PathIn(path, IndexName(source->number));
  return {};
}

Status ReadOutline(const Source& source, CheckpointIndex* outline, std::vector<int64_t>* counts) {
  counts->clear();
  SHAMPOO_RETURN_IF_ERROR(ReadIndex(
      source.path,
      [counts](const CheckpointIndex& index, const StoredBlock& block) {
        counts->resize(index.params.size(), 0);
        ++(*counts)[static_cast<size_t>(block.param)];
        return false;
      },
      outline));
  counts->resize(outline->params.size(), 0);
  return {};
}

Status ReadBlocks(const Source& source, const CheckpointIndex& outline, const BlockFilter& wants,
                  CheckpointIndex* index) {
  SHAMPOO_RETURN_IF_ERROR(ReadIndex(source.path, wants, index));
  if (index->checksum == outline.checksum) return {};
  return IoFailed(source.path, " was changed while it was read: try again");
}

Status ForEachBatch(const Source& source, const CheckpointIndex& outline, const std::vector<int64_t>& counts,
                    const VisitBatch& visit) {
  const auto param_count = static_cast<int>(counts.size());
  for (int first = 0; first < param_count;) {
    int last = first;
    int64_t blocks = 0;
    while (last < param_count && (last == first || blocks + counts[static_cast<size_t>(last)] <= kMaxBatchBlocks)) {
      blocks += counts[static_cast<size_t>(last++)];
    }
    CheckpointIndex index;
    SHAMPOO_RETURN_IF_ERROR(ReadBlocks(
        source, outline,
        [first, last](const CheckpointIndex&, const StoredBlock& block) {
          return block.param >= first && block.param < last;
        },
        &index));
    SHAMPOO_RETURN_IF_ERROR(visit({index, first, last}));
    first = last;
  }
  return {};
}

void SortByPlace(std::vector<const StoredBlock*>* blocks) {
  std::sort(blocks->begin(), blocks->end(),
            [](const StoredBlock* a, const StoredBlock* b) { return a->place.first() < b->place.first(); });
}

std::vector<std::vector<const StoredBlock*>> BlocksByParam(const Batch& batch) {
  std::vector<std::vector<const StoredBlock*>> blocks(batch.size());
  for (const StoredBlock& block : batch.index.blocks) blocks[batch.PositionOf(block)].push_back(&block);
  for (auto& of_param : blocks) SortByPlace(&of_param);
  return blocks;
}

}  // namespace shampoo::ckpt
