// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// Steps in which nothing waits for the device: gradients and learning rate are copied into place, and parameters out of
// it, by work in the stream of the steps.
class Training {
 public:
  Training(const ModelSpec& spec, cudaStream_t stream, int steps);
  ~Training();

  // The gradient of step t, from 1 on; the step; the parameters as they are then, and something else in place of the
  // gradient.
  shampoo_status Step(int t);
  // All parameters after every step, and everything at the end.
  std::vector<char> Result();
  // From here on steps are in that stream, in which what is in the one so far is waited for.
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
