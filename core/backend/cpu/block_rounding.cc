// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cpu/block_rounding.h"

#include <algorithm>

#include "core/backend/cpu/chunks.h"
#include "core/base/convert.h"

namespace shampoo {
namespace {

// Rounds consecutive elements of a parameter or of its state stochastically. first: the position of the first element
// in the flattened parameter.
class RandomRun {
 public:
  RandomRun(const RoundingKey& key, int64_t first) : key_(key), next_(static_cast<uint64_t>(first)) {}

  template <typename Real>
  void Round(const Real* from, uint16_t* to, int64_t n) {
    for (int64_t i = 0; i < n;) {
      const PhiloxBlock bits = RandomBits(key_, next_ >> 3);
      const auto left = static_cast<int64_t>(8 - (next_ & 7));
      const int64_t count = std::min(left, n - i);
      for (int64_t j = 0; j < count; ++j) {
        to[i + j] = RoundToBf16(static_cast<float>(from[i + j]), RandomOf(bits, next_ + static_cast<uint64_t>(j)));
      }
      i += count;
      next_ += static_cast<uint64_t>(count);
    }
  }

 private:
  RoundingKey key_;
  uint64_t next_;
};

}  // namespace

BlockRounding::BlockRounding(const StepItem& item, RoundedState state)
    : stochastic_{{BlockPlace::Of(item.param->desc, *item.block),
                   {item.program->rounding_seed, state, static_cast<uint32_t>(item.block->param),
                    static_cast<uint64_t>(item.program->t)}}} {}

template <typename Real>
void BlockRounding::Store(const Real* from, void* to, Dtype dtype, int64_t first, int64_t n) const {
  if (!stochastic_ || dtype != Dtype::kBf16) return Narrow(from, to, dtype, n);
  auto* const rounded = static_cast<uint16_t*>(to);
  ForEachRunOf(stochastic_->place, {first, first + n}, [&](int64_t dense, int64_t at, int64_t count) {
    RandomRun(stochastic_->key, at).Round(from + (dense - first), rounded + (dense - first), count);
  });
}

template <typename Real>
void BlockRounding::Round(Dtype dtype, Real* elements, int64_t first, int64_t n) const {
  if (dtype == DtypeOf<Real>()) return;
  alignas(16) unsigned char rounded[kChunkElements * sizeof(double)];
  Store(elements, rounded, dtype, first, n);
  Widen(rounded, dtype, elements, n);
}

template <typename Real>
void StoreRounded(const BlockRounding* rounding, const Real* from, void* to, Dtype dtype, int64_t first,
                  int64_t count) {
  if (rounding == nullptr) return Narrow(from, to, dtype, count);
  rounding->Store(from, to, dtype, first, count);
}

template void StoreRounded<float>(const BlockRounding*, const float*, void*, Dtype, int64_t, int64_t);
template void StoreRounded<double>(const BlockRounding*, const double*, void*, Dtype, int64_t, int64_t);
template void BlockRounding::Store<float>(const float*, void*, Dtype, int64_t, int64_t) const;
template void BlockRounding::Store<double>(const double*, void*, Dtype, int64_t, int64_t) const;
template void BlockRounding::Round<float>(Dtype, float*, int64_t, int64_t) const;
template void BlockRounding::Round<double>(Dtype, double*, int64_t, int64_t) const;

}  // namespace shampoo
