// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/work.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tools/bench/fail.h"

namespace bench {
namespace {

constexpr double kElementwiseFlops = 20;  // for each element of a block
constexpr double kElementBytes = 4;       // bytes of an element of parameters, gradients and intermediate results

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

void AddBlock(const shampoo_block_info& block, StepWork* work) {
  double n = 1;
  for (int k = 0; k < block.ndim; ++k) n *= static_cast<double>(block.shape[k]);
  work->parameters += static_cast<int64_t>(n);
  ++work->blocks;
  work->elementwise.flops += kElementwiseFlops * n;
  work->check.bytes += kElementBytes * n;
  work->elementwise.bytes += 3 * kElementBytes * n;
}

// The factor matrices of a block.
struct Factors {
  std::vector<double> sizes;  // the size of each factor matrix, which is the length of a dim of the block
  double contractions = 1;    // for each dim, the number of products with the inverse root or eigenbasis of the dim
};

void AddFactors(const Factors& factors, bool square_roots, StepWork* work) {
  double n = 1;
  for (const double d : factors.sizes) n *= d;
  for (const double d : factors.sizes) {
    work->factor_update.flops += d * n;
    work->roots.flops += RootFlops(d, square_roots && factors.contractions == 1);
    work->preconditioning.flops += 2 * factors.contractions * d * n;
  }
  work->factor_update.bytes += kElementBytes * n;
  work->preconditioning.bytes += 2 * factors.contractions * kElementBytes * n;
}

void AddState(const shampoo_state_entry& entry, StepWork* work) {
  const char* const name = std::strrchr(entry.key, '/') + 1;
  const double element = BytesOf(entry.dtype);
  const auto d = static_cast<double>(entry.shape[0]);
  if (std::strncmp(name, "factor.", 7) == 0) {
    work->factor_update.bytes += 2 * element * d * (d + 1) / 2;
  } else if (std::strncmp(name, "inverse.", 8) == 0 || std::strncmp(name, "basis.", 6) == 0) {
    work->preconditioning.bytes += element * d * d;
  } else if (std::strcmp(name, "filtered_grad") == 0 || std::strcmp(name, "grafting") == 0 ||
             std::strcmp(name, "second_moment") == 0 || std::strcmp(name, "momentum") == 0) {
    work->elementwise.bytes += 2 * static_cast<double>(entry.stored_bytes);
  }
}

}  // namespace

StepWork WorkOf(const shampoo_plan* plan, const shampoo_optimizer* optimizer, bool square_roots) {
  StepWork work;
  int64_t count = 0;
  Try(shampoo_plan_block_count(plan, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
    Try(shampoo_plan_block(plan, i, &block));
    AddBlock(block, &work);
  }
  std::map<std::string, Factors> factors_of;  // key: the block; blocks without factor matrices are left out
  Try(shampoo_state_count(optimizer, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Try(shampoo_state_describe(optimizer, i, &entry));
    AddState(entry, &work);
    const char* const name = std::strrchr(entry.key, '/');
    if (std::strncmp(name, "/factor.", 8) == 0) {
      factors_of[std::string(entry.key, name)].sizes.push_back(static_cast<double>(entry.shape[0]));
    }
    // With eigenbases, the gradient is rotated into the bases, and the direction is rotated back: two contractions.
    // If eigenbases are combined with factor_correction=kl, there is one more contraction.
    if (std::strcmp(name, "/basis.0") == 0) factors_of[std::string(entry.key, name)].contractions += 1;
    if (std::strcmp(name, "/kl_scale.0") == 0) factors_of[std::string(entry.key, name)].contractions += 1;
  }
  for (const auto& [block, factors] : factors_of) AddFactors(factors, square_roots, &work);
  return work;
}

}  // namespace bench
