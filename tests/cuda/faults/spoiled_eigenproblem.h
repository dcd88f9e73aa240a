// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// Makes the eigenproblem of p1/0/factor.1 (the factor matrix of dim 1 in block 0 of parameter p1) fail in the next
// step, which must refresh roots or eigenbases. A refresh runs the eigensolver for the first dims of the three blocks,
// and then for the second dims. First waits for earlier steps, because the fake would otherwise also count the runs of
// eigensolvers in these steps. how: one of FAKE_CUDA_EIGEN_*.
inline void SpoilEigenproblem(Model* model, int how) {
  model->Wait();
  fake_cuda_fail_eigen(2, 1, how, 3);
}

}  // namespace shampoo_test
