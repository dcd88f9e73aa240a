// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_element.h"
#include "core/rules/rounding.h"

// Rounding of the elements of a block when a kernel stores them. Each kernel that stores such elements is compiled
// twice: with NearestRounding, and with StochasticRounding, which is slower. The template parameter `Rounding` is one
// of these two classes.
namespace shampoo::cuda {

// Rounds to nearest.
class NearestRounding {
 public:
  SHAMPOO_DEVICE NearestRounding(const Tables& /*tables*/, int32_t /*block*/, RoundedState /*state*/,
                                 int64_t /*step*/ = 0) {}

  template <typename Real>
  SHAMPOO_DEVICE void Write(void* base, Dtype dtype, int64_t at, int64_t /*element*/, Real value) const {
    WriteAs(base, dtype, at, value);
  }
  template <typename Real>
  SHAMPOO_DEVICE Real Rounded(Dtype dtype, int64_t /*element*/, Real value) const {
    return RoundedTo(dtype, value);
  }
};

// Does on a device what the class BlockRounding does on the CPU. Rounds bfloat16 elements of a state stochastically if
// the block's group sets state_rounding to stochastic, and bfloat16 elements of the parameter or the update if the
// group sets param_rounding to stochastic. The random numbers of an element do not depend on other elements, so each
// thread computes those of its own elements.
class StochasticRounding {
 public:
  // state: what is rounded; kParam is the parameter or the update. Call this constructor only if the step advances the
  // step counter of the block's group (DeviceGroup::active).
  SHAMPOO_DEVICE StochasticRounding(const Tables& tables, int32_t block, RoundedState state)
      : StochasticRounding(tables, block, state, tables.groups[tables.blocks[block].group].t) {}
  // step: the step number of the block's group.
  SHAMPOO_DEVICE StochasticRounding(const Tables& tables, int32_t block, RoundedState state, int64_t step)
      : positions_(tables.roundings[block].positions),
        is_stochastic_((state == RoundedState::kParam ? tables.roundings[block].rounds_param
                                                      : tables.roundings[block].rounds_states) != 0),
        key_{tables.rounding_seed, state, static_cast<uint32_t>(tables.blocks[block].param),
             static_cast<uint64_t>(step)} {}

  // Rounds a value and stores it at base[at]. element: the index of the element in the block.
  template <typename Real>
  SHAMPOO_DEVICE void Write(void* base, Dtype dtype, int64_t at, int64_t element, Real value) const {
    if (!is_stochastic_ || dtype != Dtype::kBf16) return WriteAs(base, dtype, at, value);
    __nv_bfloat16_raw rounded;
    rounded.x = RoundToBf16At(key_, positions_.At(element), static_cast<float>(value));
    static_cast<__nv_bfloat16*>(base)[at] = __nv_bfloat16(rounded);
  }
  // Returns the value after rounding it to a dtype.
  template <typename Real>
  SHAMPOO_DEVICE Real Rounded(Dtype dtype, int64_t element, Real value) const {
    double memory;
    Write(&memory, dtype, 0, element, value);
    return ReadAs<Real>(&memory, dtype, 0);
  }

 private:
  const ElementPositions& positions_;
  const bool is_stochastic_;
  const RoundingKey key_;
};

// Launches a kernel that stores elements of blocks. `Rounding` is StochasticRounding if some group of the plan rounds
// stochastically, otherwise NearestRounding. `arguments` initialize the members of the body that follow `tables`.
template <template <typename> typename Body, typename... Arguments>
cudaError_t LaunchRounding(cudaStream_t stream, int64_t ctas, const Tables& tables, const Arguments&... arguments) {
  return tables.roundings == nullptr ? Launch(stream, ctas, Body<NearestRounding>{tables, arguments...})
                                     : Launch(stream, ctas, Body<StochasticRounding>{tables, arguments...});
}
// Like the function above, for a body that also depends on the computation dtype. `arguments` initialize all members of
// the body.
template <template <typename, typename> typename Body, typename... Arguments>
cudaError_t LaunchRounding(cudaStream_t stream, int64_t ctas, const Tables& tables, Dtype computation,
                           const Arguments&... arguments) {
  const bool is_f64 = computation == Dtype::kF64;
  if (tables.roundings == nullptr) {
    return is_f64 ? Launch(stream, ctas, Body<double, NearestRounding>{arguments...})
                  : Launch(stream, ctas, Body<float, NearestRounding>{arguments...});
  }
  return is_f64 ? Launch(stream, ctas, Body<double, StochasticRounding>{arguments...})
                : Launch(stream, ctas, Body<float, StochasticRounding>{arguments...});
}

}  // namespace shampoo::cuda
