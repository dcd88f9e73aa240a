// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/reshard/expected_states.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace shampoo_test {
namespace {

using Indices = std::vector<int64_t>;

// Returns the position in the flattened parameter of element `at` of the rank's buffer.
int64_t InParameter(const ParamSpec& param, int64_t at) {
  if (param.shard_form == 0) return at;
  if (param.shard_form == 1) return param.flat_offset + at;
  int64_t place = 0;
  int64_t scale = 1;
  for (size_t k = param.shape.size(); k-- > 0;) {
    place += (param.local_offset[k] + at % param.local_shape[k]) * scale;
    at /= param.local_shape[k];
    scale *= param.shape[k];
  }
  return place;
}

Indices ElementsOf(const shampoo_block_info& info, const ParamSpec& param) {
  Indices elements = {info.flat_offset};
  for (int32_t k = 0; k < info.ndim; ++k) {
    Indices more;
    for (const int64_t element : elements) {
      for (int64_t i = 0; i < info.shape[k]; ++i) more.push_back(element + i * info.stride[k]);
    }
    elements = std::move(more);
  }
  for (int64_t& element : elements) element = info.of_shard == 0 ? element : InParameter(param, element);
  return elements;
}

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 29);
}

uint64_t Mix(uint64_t hash, const std::string& text) {
  for (const char c : text) hash = Mix(hash, static_cast<unsigned char>(c));
  return hash;
}

size_t SizeOf(int32_t dtype) {
  if (dtype == SHAMPOO_F64 || dtype == SHAMPOO_I64) return 8;
  return dtype == SHAMPOO_F32 || dtype == SHAMPOO_I32 ? 4 : 2;
}

// Turns random bits into the bits of a finite number of this dtype. Returns 0 or 1 for SHAMPOO_I32.
uint64_t FiniteBits(int32_t dtype, uint64_t random) {
  struct Layout {
    int bits, mantissa;
  };
  if (dtype == SHAMPOO_I32) return random & 1;
  const Layout layout = dtype == SHAMPOO_F64   ? Layout{64, 52}
                        : dtype == SHAMPOO_F32 ? Layout{32, 23}
                        : dtype == SHAMPOO_F16 ? Layout{16, 10}
                                               : Layout{16, 7};
  const uint64_t bits = layout.bits == 64 ? random : random & ((uint64_t{1} << layout.bits) - 1);
  const uint64_t exponent = ((uint64_t{1} << (layout.bits - 1 - layout.mantissa)) - 1) << layout.mantissa;
  return (bits & exponent) == exponent ? bits & ~(uint64_t{1} << layout.mantissa) : bits;
}

}  // namespace

std::string PlacedEntry::block() const {
  std::string text = param;
  for (const Indices* const numbers : {&block_shape, &block_elements}) {
    text += ":";
    for (const int64_t number : *numbers) text += " " + std::to_string(number);
  }
  return text;
}

int64_t PlacedEntry::elements() const {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

std::vector<PlacedEntry> EntriesOf(const Rank& rank, const std::vector<ParamSpec>& params) {
  // The shape of each block, and the positions of its elements in the flattened parameter. The keys of the map are the
  // beginnings of state keys: the name of the parameter and the number of the block.
  std::map<std::string, std::pair<Indices, Indices>> blocks;
  std::map<int32_t, int> counts;
  for (const shampoo_block_info& info : BlocksOf(rank)) {
    const ParamSpec& param = params[static_cast<size_t>(info.param)];
    blocks[param.name + "/" + std::to_string(counts[info.param]++)] = {Indices(info.shape, info.shape + info.ndim),
                                                                       ElementsOf(info, param)};
  }
  std::vector<PlacedEntry> entries;
  for (const StateEntry& description : EntriesOf(rank)) {
    const std::string key = description.key;
    const size_t slash = key.rfind('/');
    const auto block = blocks.find(key.substr(0, slash));
    if (block == blocks.end()) continue;  // the entry belongs to a group
    PlacedEntry& entry = entries.emplace_back();
    entry.index = description.index;
    entry.param = key.substr(0, key.rfind('/', slash - 1));
    entry.state = key.substr(slash + 1);
    entry.shape.assign(description.shape, description.shape + description.ndim);
    std::tie(entry.block_shape, entry.block_elements) = block->second;
    entry.dtype = description.dtype;
    entry.symmetric = description.symmetric != 0;
  }
  return entries;
}

std::vector<char> ExpectedBytes(const PlacedEntry& entry, uint64_t salt) {
  const size_t size = SizeOf(entry.dtype);
  const int64_t count = entry.elements();
  const uint64_t seed = Mix(Mix(salt, entry.state), entry.is_elementwise() ? entry.param : entry.block());
  std::vector<char> bytes(static_cast<size_t>(count) * size);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = i;
    if (entry.is_elementwise()) place = entry.block_elements[static_cast<size_t>(i)];
    if (entry.symmetric) {
      const int64_t n = entry.shape[0];
      place = std::max(i / n, i % n) * n + std::min(i / n, i % n);
    }
    const uint64_t bits = FiniteBits(entry.dtype, Mix(Mix(seed, static_cast<uint64_t>(place)), salt));
    std::memcpy(bytes.data() + static_cast<size_t>(i) * size, &bits, size);
  }
  return bytes;
}

std::vector<char> ReadBytes(const Rank& rank, const PlacedEntry& entry) {
  std::vector<char> bytes(static_cast<size_t>(entry.elements()) * SizeOf(entry.dtype));
  const shampoo_status status = shampoo_state_read(rank.optimizer, entry.index, 0, entry.elements(), bytes.data(),
                                                   bytes.size(), SHAMPOO_CPU, nullptr);
  if (status != SHAMPOO_OK) bytes.clear();
  return bytes;
}

bool WriteBytes(const Rank& rank, const PlacedEntry& entry, const std::vector<char>& bytes) {
  return shampoo_state_write(rank.optimizer, entry.index, 0, entry.elements(), bytes.data(), bytes.size(), SHAMPOO_CPU,
                             nullptr) == SHAMPOO_OK;
}

}  // namespace shampoo_test
