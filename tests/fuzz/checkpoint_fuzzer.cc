// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// A fuzz target that passes arbitrary bytes to the readers of checkpoints. It does not verify checksums, because the
// checksums of nearly all inputs are wrong. The first byte selects a reader: either that of an index, or that of the
// start of a safetensors file. If the reader accepts the bytes, all numbers that it returns must be within the bounds
// on which its callers rely.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoint/index.h"
#include "core/checkpoint/safetensors.h"

namespace {

using namespace shampoo;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Checks that ForEachRunOf() visits the first and the last few elements of a block. The contiguous runs that it
// passes to its callback must be within the parameter, be in increasing order, and contain each of these elements once.
void WalkPlace(const BlockPlace& place, int64_t param_elements) {
  constexpr int64_t kFew = 64;
  const int64_t elements = place.elements();
  Require(elements >= 1 && elements <= param_elements);
  for (const int64_t begin : {int64_t{0}, std::max<int64_t>(0, elements - kFew)}) {
    const DenseRange range{begin, std::min(elements, begin + kFew)};
    int64_t next = range.begin;
    int64_t last = -1;
    ForEachRunOf(place, range, [&](int64_t dense, int64_t at, int64_t count) {
      Require(dense == next && at > last && count >= 1 && at + count <= param_elements);
      next += count;
      last = at + count - 1;
      // Within() must find the same elements of the block as ForEachRunOf().
      const DenseRange found = Within(place, at, count);
      Require(found.begin == dense && found.end == dense + count);
    });
    Require(next == range.end);
  }
  const DenseRange all = Within(place, 0, param_elements);
  Require(all.begin == 0 && all.end == elements);
  Require(place.first() >= 0 && place.first() < param_elements);
}

bool ReadAll(std::string_view text, CheckpointIndex* index) {
  IndexText characters(text);
  return ParseIndex(
             &characters, [](const CheckpointIndex&, const StoredBlock&) { return true; }, index)
      .ok();
}

// Returns the content of the index file that a save of this index would write.
std::string ToJson(const CheckpointIndex& index) {
  std::string text = Cat(IndexStart(0), "{\"format_version\":", index.format,
                         ",\"library_version\":", Quoted(index.library), ",\"world\":", index.world);
  const auto add = [&text](const char* array, size_t count, auto&& text_of) {
    text += Cat(",\"", array, "\":[");
    for (size_t i = 0; i < count; ++i) text += Cat(i > 0 ? "," : "", text_of(i));
    text += "]";
  };
  add("groups", index.groups.size(), [&](size_t i) { return ToJson(index.groups[i]); });
  add("parameters", index.params.size(), [&](size_t i) { return ToJson(index.params[i]); });
  add("files", index.files.size(), [&](size_t i) { return ToJson(index.files[i]); });
  add("blocks", index.blocks.size(), [&](size_t i) {
    const StoredBlock& block = index.blocks[i];
    return ToJson(block, index.params[static_cast<size_t>(block.param)].name,
                  index.files[static_cast<size_t>(block.file)].name);
  });
  return text + "}" + kIndexEnd;
}

void ReadAsIndex(std::string_view text) {
  CheckpointIndex index;
  if (!ReadAll(text, &index)) return;
  for (const StoredParam& param : index.params) {
    Require(param.group >= 0 && param.group < static_cast<int>(index.groups.size()));
  }
  constexpr int64_t kFew = 4096;
  const StoredBlock* before = nullptr;
  for (const StoredBlock& block : index.blocks) {
    Require(block.param >= 0 && block.param < static_cast<int>(index.params.size()));
    Require(block.file >= 0 && block.file < static_cast<int>(index.files.size()));
    WalkPlace(block.place, index.params[static_cast<size_t>(block.param)].elements());
    if (block.place.elements() > kFew) continue;
    Require(SamePlace(block.place, block.place));
    if (before != nullptr) Require(SamePlace(block.place, before->place) == SamePlace(before->place, block.place));
    before = &block;
  }
  // Writing the index and reading it again must give the same index.
  const std::string written = ToJson(index);
  CheckpointIndex again;
  Require(ReadAll(written, &again) && ToJson(again) == written);
  Require(again.blocks.size() == index.blocks.size());
  for (size_t i = 0; i < index.blocks.size(); ++i) {
    if (index.blocks[i].place.elements() > kFew) continue;
    Require(SamePlace(index.blocks[i].place, again.blocks[i].place));
  }
}

void ReadAsStates(std::string_view bytes) {
  if (bytes.size() < static_cast<size_t>(kSafetensorsLengthBytes)) return;
  const auto size = static_cast<int64_t>(bytes.size());
  int64_t header = 0;
  if (!ReadSafetensorsLength(bytes.data(), size, &header).ok()) return;
  Require(header >= 0 && header <= size - kSafetensorsLengthBytes);
  const int64_t data = size - kSafetensorsLengthBytes - header;
  std::vector<TensorSpec> tensors;
  const std::string_view text = bytes.substr(static_cast<size_t>(kSafetensorsLengthBytes), static_cast<size_t>(header));
  if (!ParseSafetensorsHeader(text, data, &tensors).ok()) return;
  for (const TensorSpec& tensor : tensors) {
    Require(0 <= tensor.begin && tensor.begin <= tensor.end && tensor.end <= data);
  }
  // Writing the header and reading it again must give the same tensors.
  const std::string written = SafetensorsStart(tensors, "fuzz");
  std::vector<TensorSpec> again;
  Require(ReadSafetensorsLength(written.data(), static_cast<int64_t>(written.size()), &header).ok());
  Require(ParseSafetensorsHeader(written.substr(8), data, &again).ok() && again.size() == tensors.size());
  Require(SafetensorsStart(again, "fuzz") == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  (data[0] & 1) == 0 ? ReadAsIndex(rest) : ReadAsStates(rest);
  return 0;
}
