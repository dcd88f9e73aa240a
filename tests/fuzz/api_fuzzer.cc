// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// A fuzz target that derives calls of the public API from arbitrary bytes: it sets keys, makes a plan and makes steps.
// No call may crash, hang or leak. The blocks of an accepted plan must cover every element of the parameters exactly
// once.
#include <shampoo/shampoo.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  uint8_t Next() { return empty() ? 0 : *at_++; }
  // Returns a length for a shape: usually 0 to 12, sometimes an arbitrary 64-bit number.
  int64_t Extent() {
    const uint8_t kind = Next();
    if (kind < 0xf0) return kind % 13;
    int64_t wild = 0;
    for (int i = 0; i < 8; ++i) wild = static_cast<int64_t>(static_cast<uint64_t>(wild) << 8 | Next());
    return wild;
  }
  std::string Text() {
    std::string text;
    for (uint8_t length = Next() % 12; length > 0; --length) text.push_back(static_cast<char>(Next()));
    return text;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

void Require(bool condition) {
  if (!condition) std::abort();
}

// Sets keys; the bytes select the keys and their values. Most values in the lists are valid for at least one key.
void SetKeys(Bytes* bytes, shampoo_config* config) {
  static const char* const kMethods[] = {nullptr, "soap", "kl_shampoo", "adam"};
  static const char* const kTexts[] = {"0",    "1",     "2",    "3",       "0.5",     "0.9",     "1e-3",
                                       "true", "false", "adam", "sgd",     "f16",     "bf16",    "f64",
                                       "zero", "-1",    "auto", "adagrad", "coupled", "updates", "0,2,3"};
  static const char* const kMoreTexts[] = {"soap",      "kl_shampoo", "kl",    "qr",      "eigen",           "none",
                                           "ascending", "before",     "after", "permute", "rotate",          "use",
                                           "first",     "identity",   "basis", "smaller", "larger",          "rms",
                                           "frobenius", "hyperball",  "palm",  "2,1",     "decoupled_after", "0.25"};
  static const char* const kLastTexts[] = {"rmsprop", "muon", "sign", "row", "element", "skip_step"};
  const uint8_t first = bytes->Next();
  const char* const method = kMethods[first / 12 % std::size(kMethods)];
  if (method != nullptr) Require(shampoo_config_set_str(config, "method", method) == SHAMPOO_OK);
  for (int count = first % 12; count > 0; --count) {
    shampoo_key_info info = SHAMPOO_KEY_INFO_INIT;
    Require(shampoo_config_describe_key(bytes->Next() % shampoo_config_key_count(), &info) == SHAMPOO_OK);
    const uint8_t choice = bytes->Next();
    const std::string text = choice < 120   ? kTexts[choice % std::size(kTexts)]
                             : choice < 240 ? kMoreTexts[choice % std::size(kMoreTexts)]
                             : choice < 246 ? kLastTexts[choice % std::size(kLastTexts)]
                                            : bytes->Text();
    if (shampoo_config_set_str(config, info.name, text.c_str()) == SHAMPOO_OK) {
      Require(shampoo_config_set_str(config, info.name, shampoo_config_get(config, info.name)) == SHAMPOO_OK);
    }
  }
}

// Returns the number of elements of an accepted shape. If one extent is 0, the others may be so large that their
// product overflows.
int64_t Elements(const int64_t* shape, int32_t ndim) {
  if (std::find(shape, shape + ndim, 0) != shape + ndim) return 0;
  int64_t elements = 1;
  for (int32_t k = 0; k < ndim; ++k) Require(!__builtin_mul_overflow(elements, shape[k], &elements));
  return elements;
}

// Sets the role, the fan and row_splits to values that the bytes select. Most of these values are valid.
void DrawRoleAndParts(Bytes* bytes, shampoo_param_desc* desc) {
  const uint8_t first = bytes->Next();
  desc->role = first % 5;     // 4 is invalid
  desc->fan = first / 5 % 3;  // 2 is invalid
  const uint8_t kind = bytes->Next() % 8;
  const int output = desc->fan == SHAMPOO_IN_OUT ? desc->ndim - 1 : desc->stack_dims;
  if (kind < 2) return;  // the parameter is not divided
  if (kind == 2) {       // parts of the same size
    desc->row_splits[0] = 1 + bytes->Next() % 4;
  } else if (kind == 3) {
    for (int64_t& size : desc->row_splits) size = bytes->Extent();
  } else {
    int64_t rest = output >= 0 && output < desc->ndim ? desc->shape[output] : 0;
    for (int k = 0; k < 8 && rest > 0; ++k) {
      desc->row_splits[k] = k == 7 ? rest : std::min<int64_t>(rest, 1 + bytes->Next() % 6);
      rest -= desc->row_splits[k];
    }
  }
}

int64_t AddParam(Bytes* bytes, shampoo_plan* plan, const std::string& name, int32_t groups) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = name.c_str();
  desc.ndim = bytes->Next() % 6;
  desc.stack_dims = bytes->Next() % 4 == 0 ? bytes->Next() % 3 : 0;
  for (int k = 0; k < desc.ndim && k < 8; ++k) desc.shape[k] = bytes->Extent();
  desc.param_dtype = 1 + bytes->Next() % 4;
  desc.grad_dtype = 1 + bytes->Next() % 4;
  desc.group = bytes->Next() % (groups + 1);
  const uint8_t shard = bytes->Next();
  desc.shard_form = shard % 8 == 0 ? bytes->Next() % 4 : 0;
  desc.flat_offset = bytes->Extent();
  desc.flat_count = bytes->Extent();
  for (int k = 0; k < desc.ndim; ++k) {
    desc.local_offset[k] = bytes->Next() % 3;
    desc.local_shape[k] = bytes->Next() % 5;
  }
  // The library rejects a parameter if a field of another shard_form is not 0. For 7 of 8 values of `shard`, the fuzzer
  // therefore sets such fields to 0.
  const bool clears_others = shard % 8 != 7;
  if (clears_others && desc.shard_form != 1) desc.flat_offset = desc.flat_count = 0;
  if (clears_others && desc.shard_form != 2) {
    std::fill_n(desc.local_offset, 8, 0);
    std::fill_n(desc.local_shape, 8, 0);
  }
  if (shard >= 192) DrawRoleAndParts(bytes, &desc);
  if (shampoo_plan_add_param(plan, &desc, nullptr) != SHAMPOO_OK) return -1;
  if (desc.shard_form == 1) return desc.flat_count;
  return Elements(desc.shard_form == 2 ? desc.local_shape : desc.shape, desc.ndim);
}

void CheckCover(const shampoo_plan* plan, const std::vector<int64_t>& elements) {
  std::vector<std::vector<uint8_t>> seen;
  for (int64_t n : elements) seen.emplace_back(static_cast<size_t>(n), uint8_t{0});
  int64_t blocks = 0;
  Require(shampoo_plan_block_count(plan, &blocks) == SHAMPOO_OK);
  for (int64_t b = 0; b < blocks; ++b) {
    shampoo_block_info info = SHAMPOO_BLOCK_INFO_INIT;
    Require(shampoo_plan_block(plan, b, &info) == SHAMPOO_OK);
    std::vector<int64_t> index(8, 0);
    for (int k = 0; k >= 0;) {
      int64_t at = info.flat_offset;
      for (int d = 0; d < info.ndim; ++d) at += index[static_cast<size_t>(d)] * info.stride[d];
      ++seen.at(static_cast<size_t>(info.param)).at(static_cast<size_t>(at));
      for (k = info.ndim - 1; k >= 0 && ++index[static_cast<size_t>(k)] == info.shape[k]; --k) {
        index[static_cast<size_t>(k)] = 0;
      }
    }
  }
  for (const auto& param : seen) {
    for (uint8_t count : param) Require(count == 1);
  }
}

// Returns whether a step is fast. The time of an inverse root grows with the cube of the size of the factor matrix, so
// one step with roots of size 1000 takes as long as all calls for thousands of typical inputs.
bool StepsAreShort(const shampoo_plan* plan) {
  // Allows one factor matrix of size 215. The limit must allow a factor matrix of size 128, because the library stores
  // only one triangle of factor matrices from this size on, and the fuzzer must reach that code.
  constexpr int64_t kLargestWork = 10'000'000;
  int64_t work = 0;
  int64_t blocks = 0;
  Require(shampoo_plan_block_count(plan, &blocks) == SHAMPOO_OK);
  for (int64_t b = 0; b < blocks; ++b) {
    shampoo_block_info info = SHAMPOO_BLOCK_INFO_INIT;
    Require(shampoo_plan_block(plan, b, &info) == SHAMPOO_OK);
    for (int k = 0; k < info.ndim; ++k) work += info.shape[k] * info.shape[k] * info.shape[k];
  }
  return work <= kLargestWork;
}

void TakeSteps(Bytes* bytes, const shampoo_plan* plan, const std::vector<int64_t>& elements) {
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_optimizer* optimizer = nullptr;
  if (shampoo_optimizer_create(&optimizer, plan, &desc) != SHAMPOO_OK) return;
  std::vector<std::vector<uint64_t>> params;
  std::vector<std::vector<uint64_t>> grads;
  std::vector<shampoo_buffers> buffers;
  for (int64_t n : elements) {
    params.emplace_back(static_cast<size_t>(n) + 1);
    grads.emplace_back(static_cast<size_t>(n) + 1);
    shampoo_buffers one = SHAMPOO_BUFFERS_INIT;
    one.param = params.back().data();
    one.grad = bytes->Next() % 4 == 0 ? nullptr : grads.back().data();
    one.out = params.back().data();
    buffers.push_back(one);
  }
  Require(shampoo_optimizer_bind(optimizer, 0, static_cast<int32_t>(buffers.size()), buffers.data()) == SHAMPOO_OK);
  for (int step = 0; step < 3; ++step) {
    for (auto& grad : grads) {
      for (auto& word : grad) word = static_cast<uint64_t>(bytes->Next()) * 0x0101010101010101u;
    }
    (void)shampoo_optimizer_step(optimizer, nullptr);
  }
  shampoo_optimizer_destroy(optimizer);
}

void Drive(Bytes* bytes) {
  shampoo_config* config = nullptr;
  shampoo_plan* plan = nullptr;
  Require(shampoo_config_create(&config) == SHAMPOO_OK);
  SetKeys(bytes, config);
  shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  desc.threads = 1 + bytes->Next() % 2;
  std::vector<int64_t> elements;
  if (shampoo_plan_create(&plan, config, &desc) == SHAMPOO_OK) {
    int32_t groups = 1;
    if (bytes->Next() % 3 == 0) {
      SetKeys(bytes, config);
      groups += shampoo_plan_add_group(plan, config, nullptr) == SHAMPOO_OK ? 1 : 0;
    }
    int64_t total = 0;
    for (int p = bytes->Next() % 5; p > 0; --p) {
      const int64_t n = AddParam(bytes, plan, "p" + std::to_string(elements.size()), groups);
      if (n < 0) continue;
      elements.push_back(n);
      total = total > 20000 || n > 20000 ? 20001 : total + n;
    }
    if (total <= 20000 && shampoo_plan_finish(plan) == SHAMPOO_OK) {
      CheckCover(plan, elements);
      if (StepsAreShort(plan)) TakeSteps(bytes, plan, elements);
    }
  }
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  Drive(&bytes);
  return 0;
}
