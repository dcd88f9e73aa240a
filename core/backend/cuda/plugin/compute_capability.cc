// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/compute_capability.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/base/text.h"

namespace shampoo::cuda {
namespace {

constexpr std::string_view kBuiltFor = SHAMPOO_CUDA_BUILT_FOR;

// One architecture of CMAKE_CUDA_ARCHITECTURES, and the compute capabilities that its code supports.
struct Architecture {
  int major = 0;
  int minor = 0;
  bool is_exact = false;              // supports only this compute capability, as "90a" does
  bool supports_later_major = false;  // has PTX that the driver compiles for every later compute capability

  bool Supports(int device_major, int device_minor) const {
    if (device_major != major) return supports_later_major && device_major > major;
    return is_exact ? device_minor == minor : device_minor >= minor;
  }
};

Architecture Parse(std::string_view text) {
  Architecture made;
  int number = 0;
  size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) number = 10 * number + (text[at] - '0');
  made.major = number / 10;
  made.minor = number % 10;
  const char suffix = at < text.size() ? text[at] : '-';
  made.is_exact = suffix == 'a';
  // The suffix f, as in "100f", marks a family, whose PTX supports only devices with the same major number.
  made.supports_later_major = suffix == '-' && !text.ends_with("-real");
  return made;
}

std::vector<Architecture> ParseAll(std::string_view text) {
  std::vector<Architecture> all;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    all.push_back(Parse(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::string TextOf(const Architecture& architecture) {
  std::string number = Cat(architecture.major, ".", architecture.minor);
  if (architecture.is_exact) return number;
  if (architecture.supports_later_major) return Cat(number, " or later");
  return architecture.minor == 0 ? Cat(architecture.major, ".x") : Cat(number, " to ", architecture.major, ".9");
}

// Reads the compute capability of a device. This does not create a context.
Status ReadComputeCapability(int device, int* major, int* minor) {
  SHAMPOO_CUDA_TRY(cudaDeviceGetAttribute(major, cudaDevAttrComputeCapabilityMajor, device));
  SHAMPOO_CUDA_TRY(cudaDeviceGetAttribute(minor, cudaDevAttrComputeCapabilityMinor, device));
  return {};
}

Status NoKernelsFor(int device, int major, int minor) {
  return Unsupported(
      "device ", device, " has compute capability ", major, ".", minor, "; this build supports ",
      SupportedText(kBuiltFor),
      ". Use another device, or build the CUDA backend for this device (CMake option SHAMPOO_CUDA_ARCHITECTURES)");
}

}  // namespace

bool HasCodeFor(std::string_view built_for, int major, int minor) {
  const std::vector<Architecture> all = ParseAll(built_for);
  if (all.empty()) return true;
  return std::any_of(all.begin(), all.end(), [&](const Architecture& one) { return one.Supports(major, minor); });
}

std::string SupportedText(std::string_view built_for) {
  const std::vector<Architecture> all = ParseAll(built_for);
  std::string text;
  for (const Architecture& one : all) {
    const bool is_covered = std::any_of(all.begin(), all.end(), [&](const Architecture& other) {
      return other.supports_later_major && !one.supports_later_major && other.Supports(one.major, one.minor);
    });
    if (!is_covered) text += (text.empty() ? "" : ", ") + TextOf(one);
  }
  return text;
}

Status CheckComputeCapability(int device) {
  int major = 0;
  int minor = 0;
  SHAMPOO_RETURN_IF_ERROR(ReadComputeCapability(device, &major, &minor));
  return HasCodeFor(kBuiltFor, major, minor) ? Status() : NoKernelsFor(device, major, minor);
}

Status NoKernelsFor(int device) {
  int major = 0;
  int minor = 0;
  SHAMPOO_RETURN_IF_ERROR(ReadComputeCapability(device, &major, &minor));
  return NoKernelsFor(device, major, minor);
}

}  // namespace shampoo::cuda
