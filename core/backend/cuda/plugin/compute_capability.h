// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"

// Functions that check whether the kernels of the plugin support a device.
namespace shampoo::cuda {

// Returns whether kernels that were compiled for `built_for` run on devices of compute capability major.minor.
// built_for: architectures as in CMAKE_CUDA_ARCHITECTURES, separated by commas, such as "80-real,100-virtual". If
// built_for is "", returns true, because the architectures are unknown.
bool HasCodeFor(std::string_view built_for, int major, int minor);
// Returns the compute capabilities that `built_for` supports, such as "8.x, 10.0 or later".
std::string SupportedText(std::string_view built_for);

// Returns an error if the plugin has no kernels for a device.
Status CheckComputeCapability(int device);
// Returns the error that CheckComputeCapability() returns for a device without kernels. Call this function if CUDA
// reports that the kernels for the device are missing.
Status NoKernelsFor(int device);

}  // namespace shampoo::cuda
