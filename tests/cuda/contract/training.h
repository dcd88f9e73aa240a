// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// Makes steps of a model without waiting for the device. Copies in the same stream bring the gradients and the learning
// rate to the device, and the parameters back to the host.
class Training {
 public:
  Training(const ModelSpec& spec, cudaStream_t stream, int steps);
  ~Training();

  // Enqueues the work of step t, counted from 1: copies of the gradients and of the learning rate to the device, the
  // step, copies of the parameters to the host, and memsets that fill the gradients and the learning rate with NaN,
  // so that work which reads them too late gives a wrong result.
  shampoo_status Step(int t);
  // Waits for the device. Returns the current parameters and states, and the parameters after every step.
  std::vector<char> Result();
  // Changes the stream of later steps. The new stream waits for the work of the old one.
  void MoveTo(cudaStream_t stream);
  Model& model() { return model_; }

 private:
  Model model_;
  std::vector<std::vector<PinnedFloats>> gradients_;  // by step, then by parameter
  std::vector<std::vector<PinnedFloats>> seen_;       // parameters after each step
  PinnedFloats rates_;
  DeviceBytes rate_;
  cudaEvent_t moved_ = nullptr;
};

}  // namespace shampoo_test
