// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/plugin/device_element.h"

// Functions that several kernels use.
namespace shampoo::cuda {

// Rejects the step and counts it, unless it is already counted.
SHAMPOO_DEVICE inline void CountRejection(StepState* state) {
  state->rejected = 1;
  state->go = 0;
  state->report.rejections += state->counted == 0 ? 1 : 0;
  state->report.rejected_ticket = state->report.ticket;
  state->counted = 1;
}

// Writes the outputs of a part of a block that a step leaves unchanged. Every step writes all outputs.
SHAMPOO_DEVICE inline void PassThrough(const Cta& cta, const Tables& tables, const DeviceBlock& block, int64_t begin,
                                       int64_t size) {
  const Buffers& buffers = tables.buffers[block.param];
  if (buffers.param == nullptr) return;
  const DeviceParam& param = tables.params[block.param];
  const bool updates = tables.groups[block.group].output == Output::kUpdates;
  const bool writes = buffers.out != nullptr && (updates || buffers.out != buffers.param);
  if (!writes && buffers.copy == nullptr) return;
  cta.ForEach(size, [&](int64_t i) {
    const int64_t place = PlaceOf(block, begin + i);
    // float64 represents every value of every dtype, so each value is rounded only once.
    const double value = ReadAs<double>(buffers.param, param.param_dtype, place);
    if (buffers.copy != nullptr) WriteAs(buffers.copy, param.copy_dtype, place, value);
    if (writes) WriteAs(buffers.out, param.out_dtype, place, updates ? 0.0 : value);
  });
}

// Launches a body over the tiles or blocks of a batch, in the arithmetic of its blocks.
template <template <typename> typename Body>
cudaError_t LaunchOver(cudaStream_t stream, int64_t ctas, const Tables& tables, const BatchTables& batch,
                       Dtype computation) {
  return computation == Dtype::kF64 ? Launch(stream, ctas, Body<double>{tables, batch})
                                    : Launch(stream, ctas, Body<float>{tables, batch});
}

}  // namespace shampoo::cuda
