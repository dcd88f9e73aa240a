// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// Makes the eigenproblem of p1/0/factor.1 (the factor matrix of dim 1 in block 0 of parameter p1) fail in the next
// step, which must refresh roots or eigenbases. The model must have three parameters, which are matrices of equal shape
// with one block each. A refresh then runs the eigensolver twice: for dim 0 of all blocks, then for dim 1. Waits for
// earlier steps before it sets the fault. Otherwise the fake would also count the runs of eigensolvers in these steps.
// how: one of FAKE_CUDA_EIGEN_*.
inline void FailEigenproblem(Model* model, int how) {
  model->Wait();
  fake_cuda_fail_eigen(2, 1, how, 3);
}

}  // namespace shampoo_test
