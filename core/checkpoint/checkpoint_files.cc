// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "core/checkpoint/file.h"

namespace shampoo {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";

std::string Padded(int64_t number, size_t digits) {
  std::string text = Cat(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

}  // namespace

std::string IndexName(int64_t number) { return Cat(kPrefix, Padded(number, 6), ".json"); }

std::string StatesName(int64_t number, int rank, int world, int part) {
  return Cat(kPrefix, Padded(number, 6), ".rank-", Padded(rank, 5), "-of-", Padded(world, 5),
             part > 1 ? Cat(".part-", part) : std::string(), ".safetensors");
}

int64_t CheckpointNumber(std::string_view name, bool* is_index) {
  *is_index = false;
  if (!name.starts_with(kPrefix)) return -1;
  const std::string_view rest = name.substr(kPrefix.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  const std::string_view kind = rest.substr(static_cast<size_t>(end - rest.data()));
  const std::string_view digits = rest.substr(0, rest.size() - kind.size());
  if (error != std::errc() || number <= 0 || number > kLargestNumber || digits != Padded(number, 6)) return -1;
  *is_index = kind == ".json";
  const bool is_known = *is_index || kind == ".json.tmp" ||
                        (kind.starts_with(".rank-") && (kind.ends_with(".safetensors") || kind.ends_with(kTemporary)));
  return is_known ? number : -1;
}

Status FindCheckpoints(const std::string& directory, std::vector<FoundCheckpoint>* found) {
  std::vector<std::string> names;
  SHAMPOO_RETURN_IF_ERROR(ListDirectory(directory, &names));
  std::map<int64_t, FoundCheckpoint, std::greater<>> by_number;
  for (std::string& name : names) {
    bool is_index = false;
    const int64_t number = CheckpointNumber(name, &is_index);
    if (number < 0) continue;
    FoundCheckpoint& checkpoint = by_number[number];
    checkpoint.number = number;
    checkpoint.complete = checkpoint.complete || is_index;
    checkpoint.names.push_back(std::move(name));
  }
  found->clear();
  for (auto& [number, checkpoint] : by_number) found->push_back(std::move(checkpoint));
  return {};
}

Status RemoveCheckpoint(const std::string& directory, const FoundCheckpoint& checkpoint) {
  if (checkpoint.complete) {
    SHAMPOO_RETURN_IF_ERROR(Remove(PathIn(directory, IndexName(checkpoint.number))));
    SHAMPOO_RETURN_IF_ERROR(SyncDirectory(directory));
  }
  for (const std::string& name : checkpoint.names) SHAMPOO_RETURN_IF_ERROR(Remove(PathIn(directory, name)));
  return {};
}

}  // namespace shampoo
