// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <typeinfo>

#include "tests/cuda/fake/control.h"

// Enqueues a kernel of a program that uses the fake. The fake calls `run` once for each CTA (thread block), with the
// index of the CTA. body: a type. Its name is the name of the kernel in functions such as fake_cuda_launches_of().
extern "C" SHAMPOO_FAKE_EXPORT cudaError_t fake_cuda_launch(cudaStream_t stream, int64_t ctas,
                                                            const std::type_info& body,
                                                            std::function<void(int64_t)> run);
