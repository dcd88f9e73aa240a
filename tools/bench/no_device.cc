// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Defines MakeDevice() (device.h) for builds without CUDA, in which the CPU is the only device.
#include "tools/bench/device.h"
#include "tools/bench/fail.h"

namespace bench {

std::unique_ptr<Device> MakeDevice(const std::string& name, const std::string&) {
  if (name == "cpu") return nullptr;
  Fail("--device " + name +
       ": expected cpu, because this program was built without CUDA. Configure the build with a "
       "CUDA toolkit to use a GPU");
}

}  // namespace bench
