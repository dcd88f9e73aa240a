// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <typeinfo>

#include "tests/cuda/fake/control.h"

// Enqueues a kernel that is not part of the plugin: `run` is called once for each CTA. `body` names the kernel.
extern "C" SHAMPOO_FAKE_EXPORT cudaError_t fake_cuda_launch(cudaStream_t stream, int64_t ctas,
                                                            const std::type_info& body,
                                                            std::function<void(int64_t)> run);
