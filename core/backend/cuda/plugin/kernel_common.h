// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_element.h"
#include "core/backend/cuda/plugin/element_rounding.h"

// Functions that several kernels use.
namespace shampoo::cuda {

// Returns whether the step updates a block, according to the checks before the first write.
SHAMPOO_DEVICE inline bool IsStepped(const Tables& tables, int32_t block) {
  return tables.state->go != 0 && tables.work[block].go != 0;
}

// Like IsStepped(), but also returns false if a kernel that runs after these checks has cleared BlockWork::states_fit.
SHAMPOO_DEVICE inline bool UpdatesStates(const Tables& tables, int32_t block) {
  return IsStepped(tables, block) && tables.work[block].states_fit != 0;
}

// Rejects the step, and counts the rejection unless it is already counted.
SHAMPOO_DEVICE inline void CountRejection(StepState* state) {
  state->rejected = 1;
  state->go = 0;
  state->report.rejections += state->counted == 0 ? 1 : 0;
  state->report.rejected_ticket = state->report.ticket;
  state->counted = 1;
}

// Rejects the step because of a group, unless the step is already rejected. The report stores `value` as
// StepReport::value, and `key` as StepReport::dim. The comments of Rejection describe these two members.
SHAMPOO_DEVICE inline void RejectGroup(StepState* state, Rejection rejection, int32_t group, double value,
                                       int32_t key = 0) {
  if (state->rejected != 0) return;
  CountRejection(state);
  state->report.rejection = rejection;
  state->report.group = group;
  state->report.value = value;
  state->report.dim = key;
  state->report.block = -1;
}

// Returns whether this rank writes outputs from the data that it receives for a block. Callers must also check whether
// the update of the block was skipped.
SHAMPOO_DEVICE inline bool ReceivesUpdate(const Tables& tables, const DeviceBlock& block) {
  const Buffers& buffers = tables.buffers[block.param];
  return tables.state->exports != 0 ? block.average_offset().present() && buffers.out != nullptr
                                    : buffers.grad != nullptr && tables.groups[block.group].active != 0;
}

// Returns whether the output of a block receives the update instead of the new parameter.
SHAMPOO_DEVICE inline bool OutputsUpdates(const Tables& tables, const DeviceBlock& block) {
  return tables.state->exports == 0 && tables.groups[block.group].output == Output::kUpdates;
}

// Writes the outputs of elements that a step leaves unchanged. In an export, writes parameters that have no average.
class UnchangedOutputs {
 public:
  SHAMPOO_DEVICE UnchangedOutputs(const Tables& tables, const DeviceBlock& block, const Buffers& buffers)
      : buffers_(buffers),
        param_(tables.params[block.param]),
        updates_(OutputsUpdates(tables, block)),
        writes_(buffers.out != nullptr && (updates_ || buffers.out != buffers.param)) {}

  SHAMPOO_DEVICE bool any() const { return buffers_.param != nullptr && (writes_ || buffers_.copy != nullptr); }
  // place: position in the caller's buffers.
  SHAMPOO_DEVICE void Write(int64_t place) const {
    // float64 represents every value of the four floating-point dtypes, so each value is rounded only once.
    const double value = ReadAs<double>(buffers_.param, param_.param_dtype, place);
    if (buffers_.copy != nullptr) WriteAs(buffers_.copy, param_.copy_dtype, place, value);
    if (writes_) WriteAs(buffers_.out, param_.out_dtype, place, updates_ ? 0.0 : value);
  }

 private:
  const Buffers& buffers_;
  const DeviceParam& param_;
  const bool updates_;
  const bool writes_;
};

// Writes the outputs of elements [begin, begin + size) of a block, as UnchangedOutputs does. A step that is not
// rejected calls this function because it must write all outputs, even of elements that it leaves unchanged.
SHAMPOO_DEVICE inline void PassThrough(const Cta& cta, const Tables& tables, const DeviceBlock& block, int64_t begin,
                                       int64_t size) {
  const UnchangedOutputs outputs(tables, block, tables.buffers[block.param]);
  if (outputs.any()) cta.ForEach(size, [&](int64_t i) { outputs.Write(PlaceOf(block, begin + i)); });
}

// Computes outputs from exchanged data, with the same arithmetic as the owner of the block, and writes them.
template <typename Real, typename Rounding>
class ReceivedOutputs {
 public:
  // index: the index of the block.
  SHAMPOO_DEVICE ReceivedOutputs(const Tables& tables, int32_t index, const Buffers& buffers)
      : buffers_(buffers),
        exports_(tables.state->exports != 0),
        param_(tables.params[tables.blocks[index].param]),
        updates_(OutputsUpdates(tables, tables.blocks[index])),
        receives_params_(tables.exchange_params != 0 && !exports_),
        rounding_(tables, index, RoundedState::kParam) {}

  // place: position in the caller's buffers. element: index in the block.
  SHAMPOO_DEVICE void Write(int64_t place, int64_t element, Real received) const {
    const Real value = receives_params_ ? received : ReadAs<Real>(buffers_.param, param_.param_dtype, place) + received;
    if (exports_) {  // round to nearest: stochastic rounding is only for steps
      WriteAs(buffers_.out, param_.out_dtype, place, value);
    } else {
      rounding_.Write(buffers_.out, param_.out_dtype, place, element, updates_ ? received : value);
    }
    if (buffers_.copy != nullptr) WriteAs(buffers_.copy, param_.copy_dtype, place, value);
  }

 private:
  const Buffers& buffers_;
  const bool exports_;
  const DeviceParam& param_;
  const bool updates_;
  const bool receives_params_;
  const Rounding rounding_;
};

// Returns |x|^2, added up in float64.
template <typename Real>
SHAMPOO_DEVICE inline double SumOfSquares(const Cta& cta, const Real* x, int64_t n) {
  return cta.Sum(n, [&](int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

// Returns the number of dims of a block that have a factor matrix.
SHAMPOO_DEVICE inline int FactorCount(const DeviceBlock& block) {
  int count = 0;
  for (int k = 0; k < block.factors; ++k) count += block.factor[k].present() ? 1 : 0;
  return count;
}

// Launches a kernel body (cta.h), instantiated for the computation dtype. `args` initialize the members of the body.
template <template <typename> typename Body, typename... Args>
cudaError_t LaunchReal(cudaStream_t stream, Dtype computation, int64_t ctas, const Args&... args) {
  return computation == Dtype::kF64 ? Launch(stream, ctas, Body<double>{args...})
                                    : Launch(stream, ctas, Body<float>{args...});
}

// Launches a kernel body over the tiles or blocks of a batch, instantiated for the computation dtype of the batch.
template <template <typename> typename Body, typename... Arguments>
cudaError_t LaunchOver(cudaStream_t stream, int64_t ctas, const Tables& tables, const BatchTables& batch,
                       Dtype computation, const Arguments&... arguments) {
  return LaunchReal<Body>(stream, computation, ctas, tables, batch, arguments...);
}

}  // namespace shampoo::cuda
