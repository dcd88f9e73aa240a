// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "capi/tools/ckpt/source.h"

#include <algorithm>

#include "core/checkpoint/checkpoint_files.h"

namespace shampoo::ckpt {
namespace {

constexpr int64_t kMostBlocks = 1 << 14;  // that are held at a time, but for one parameter's

std::string LastPartOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace

Status Locate(const std::string& path, Source* source) {
  PathKind kind = PathKind::kNothing;
  SHAMPOO_RETURN_IF_ERROR(KindOf(path, &kind));
  if (kind == PathKind::kNothing) {
    return IoFailed("there is no ", path,
                    ": expected a directory that a checkpoint was saved into, or the index of one");
  }
  if (kind == PathKind::kFile) {
    bool is_index = false;
    const int64_t number = CheckpointNumber(LastPartOf(path), &is_index);
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
    return IoFailed(path, " has no checkpoint", found.empty() ? "" : " but unfinished ones",
                    ": expected checkpoint-<number>.json; a shampoo_save that succeeded leaves one");
  }
  source->number = source->complete.back();
  source->path = PathIn(path, IndexName(source->number));
  return {};
}

Status ReadParams(const Source& source, CheckpointIndex* params, std::vector<int64_t>* counts) {
  counts->clear();
  SHAMPOO_RETURN_IF_ERROR(ReadIndex(
      source.path,
      [counts](const CheckpointIndex& told, const StoredBlock& block) {
        counts->resize(told.params.size(), 0);
        ++(*counts)[static_cast<size_t>(block.param)];
        return false;
      },
      params));
  counts->resize(params->params.size(), 0);
  return {};
}

Status ReadBlocks(const Source& source, const CheckpointIndex& params, const BlockFilter& wants,
                  CheckpointIndex* index) {
  SHAMPOO_RETURN_IF_ERROR(ReadIndex(source.path, wants, index));
  if (index->checksum == params.checksum) return {};
  return IoFailed(source.path, " was changed while it was read: try again");
}

Status ForEachBatch(const Source& source, const CheckpointIndex& params, const std::vector<int64_t>& counts,
                    const VisitBatch& visit) {
  const auto param_count = static_cast<int>(counts.size());
  for (int first = 0; first < param_count;) {
    int last = first;
    int64_t blocks = 0;
    while (last < param_count && (last == first || blocks + counts[static_cast<size_t>(last)] <= kMostBlocks)) {
      blocks += counts[static_cast<size_t>(last++)];
    }
    CheckpointIndex index;
    SHAMPOO_RETURN_IF_ERROR(ReadBlocks(
        source, params,
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
  for (const StoredBlock& block : batch.index.blocks) blocks[batch.PlaceOf(block)].push_back(&block);
  for (auto& of_param : blocks) SortByPlace(&of_param);
  return blocks;
}

}  // namespace shampoo::ckpt
