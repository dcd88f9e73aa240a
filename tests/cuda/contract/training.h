// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// Steps without waits for the device: work in the stream of the steps copies gradients and the learning rate to the
// device, and parameters back.
class Training {
 public:
  Training(const ModelSpec& spec, cudaStream_t stream, int steps);
  ~Training();

  // Enqueues the copy of the gradient of step t (from 1 on), the step, the copy of the parameters, and a write that
  // overwrites the gradient.
  shampoo_status Step(int t);
  // Returns all parameters after every step, and all results at the end.
  std::vector<char> Result();
  // Changes the stream of later steps. It waits for the work of the old one.
  void MoveTo(cudaStream_t stream);
  Model& model() { return model_; }

 private:
  Model model_;
  std::vector<std::vector<PinnedFloats>> gradients_;  // by step, then by parameter
  std::vector<std::vector<PinnedFloats>> seen_;
  PinnedFloats rates_;
  DeviceBytes rate_;
  cudaEvent_t moved_ = nullptr;
};

}  // namespace shampoo_test
