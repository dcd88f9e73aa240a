// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"

// The devices that the kernels of this library have been compiled for.
namespace shampoo::cuda {

// Returns whether kernels run on devices of a compute capability. built_for: architectures as in
// CMAKE_CUDA_ARCHITECTURES, separated by commas, such as "80-real,100-virtual". If built_for is "", returns true,
// because the architectures are unknown.
bool HasCodeFor(std::string_view built_for, int major, int minor);
// Returns the supported compute capabilities, such as "8.x, 10.0 or later".
std::string SupportedText(std::string_view built_for);

// Returns an error if this library has no kernels for a device.
Status CheckComputeCapability(int device);
// Returns the same error as CheckComputeCapability(). Called if CUDA reports that there are no kernels for a device.
Status NoKernelsFor(int device);

}  // namespace shampoo::cuda
