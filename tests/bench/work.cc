// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/work.h"

#include <cstring>
#include <string>
#include <vector>

#include "tests/bench/fail.h"

namespace bench {
namespace {

constexpr double kElementwiseFlops = 20;
constexpr double kElementBytes = 4;  // of parameters, gradients and what lies between the parts

double BytesOf(int32_t dtype) {
  switch (dtype) {
    case SHAMPOO_F64:
    case SHAMPOO_I64:
      return 8;
    case SHAMPOO_F16:
    case SHAMPOO_BF16:
      return 2;
    default:
      return 4;
  }
}

void AddBlock(const shampoo_block_info& block, bool has_factors, StepWork* work) {
  double n = 1;
  for (int k = 0; k < block.ndim; ++k) n *= static_cast<double>(block.shape[k]);
  work->parameters += static_cast<int64_t>(n);
  ++work->blocks;
  for (int k = 0; has_factors && k < block.ndim; ++k) {
    const auto d = static_cast<double>(block.shape[k]);
    work->factor_update.flops += d * n;
    work->roots.flops += kRootFlops * d * d * d;
    work->preconditioning.flops += 2 * d * n;
  }
  work->elementwise.flops += kElementwiseFlops * n;
  work->check.bytes += kElementBytes * n;
  if (has_factors) {
    work->factor_update.bytes += kElementBytes * n;
    work->preconditioning.bytes += 2 * kElementBytes * n;
  }
  work->elementwise.bytes += 3 * kElementBytes * n;
}

void AddState(const shampoo_state_entry& entry, StepWork* work) {
  const char* const name = std::strrchr(entry.key, '/') + 1;
  const double element = BytesOf(entry.dtype);
  const auto d = static_cast<double>(entry.shape[0]);
  if (std::strncmp(name, "factor.", 7) == 0) {
    work->factor_update.bytes += 2 * element * d * (d + 1) / 2;
  } else if (std::strncmp(name, "inverse.", 8) == 0) {
    work->preconditioning.bytes += element * d * d;
  } else if (std::strcmp(name, "filtered_grad") == 0 || std::strcmp(name, "grafting") == 0 ||
             std::strcmp(name, "momentum") == 0) {
    work->elementwise.bytes += 2 * static_cast<double>(entry.stored_bytes);
  }
}

// Whether each block has factor matrices. States are listed block after block, in the order of the plan, and their keys
// begin with the name of the block.
std::vector<bool> FindFactors(const shampoo_optimizer* optimizer, size_t blocks) {
  std::vector<bool> found;
  std::string before;
  int64_t count = 0;
  Try(shampoo_state_count(optimizer, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Try(shampoo_state_describe(optimizer, i, &entry));
    const char* const state = std::strrchr(entry.key, '/');
    std::string block(entry.key, state);
    if (block.compare(0, 6, "group.") == 0) continue;
    if (block != before) found.push_back(false);
    if (std::strncmp(state, "/factor.", 8) == 0) found.back() = true;
    before = std::move(block);
  }
  if (found.size() != blocks) Fail("the states are not listed block after block");
  return found;
}

}  // namespace

StepWork WorkOf(const shampoo_plan* plan, const shampoo_optimizer* optimizer) {
  StepWork work;
  int64_t count = 0;
  Try(shampoo_plan_block_count(plan, &count));
  const std::vector<bool> has_factors = FindFactors(optimizer, static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
    Try(shampoo_plan_block(plan, i, &block));
    AddBlock(block, has_factors[static_cast<size_t>(i)], &work);
  }
  Try(shampoo_state_count(optimizer, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Try(shampoo_state_describe(optimizer, i, &entry));
    AddState(entry, &work);
  }
  return work;
}

}  // namespace bench
