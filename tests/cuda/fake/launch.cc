// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/launch.h"

#include <utility>

#include "tests/cuda/fake/launcher.h"

cudaError_t fake_cuda_launch(cudaStream_t stream, int64_t ctas, const std::type_info& body,
                             std::function<void(int64_t)> run) {
  return shampoo::cuda_fake::EnqueueKernel(stream, ctas, body, std::move(run));
}
