// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that shampoo_build_info() returns JSON, and that this JSON names the expected kernel of OpenBLAS. Without an
// argument, any kernel that suits this processor is expected.
//   build_info [expected kernel]
#include <shampoo/shampoo.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tests/embed/require.h"

namespace {

// Returns the flags of the first processor in /proc/cpuinfo. If the file has no line "flags", as on 64-bit ARM, returns
// an empty set.
std::set<std::string> CpuFlags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string text = shampoo_build_info();
  const nlohmann::json info = nlohmann::json::parse(text, nullptr, false);
  REQUIRE(info.is_object(), "%s", text.c_str());
  std::ostringstream version;
  version << SHAMPOO_VERSION_MAJOR << '.' << SHAMPOO_VERSION_MINOR << '.' << SHAMPOO_VERSION_PATCH;
  REQUIRE(info.value("version", "") == version.str(), "%s", text.c_str());
  REQUIRE(!info.value("compiler", "").empty(), "%s", text.c_str());
  const nlohmann::json blas = info.value("blas", nlohmann::json::object());
  REQUIRE(blas.value("library", "").rfind("OpenBLAS ", 0) == 0, "%s", text.c_str());
  REQUIRE(blas.value("private", !EXPECT_PRIVATE) == EXPECT_PRIVATE, "%s", text.c_str());

  const std::string kernel = Lower(blas.value("kernel", ""));
  REQUIRE(!kernel.empty(), "%s", text.c_str());
  std::cout << "kernel: " << kernel << '\n';
  const std::set<std::string> flags = CpuFlags();
  if (argc > 1) {
    if (flags.count("avx2") == 0 || flags.count("fma") == 0) {
      std::cout << "skipped: this processor cannot run the kernel " << argv[1] << '\n';
      return SKIPPED;
    }
    REQUIRE(kernel == Lower(argv[1]), "kernel %s, expected %s", kernel.c_str(), argv[1]);
    return 0;
  }
  // OpenBLAS requires all of these flags for its kernels with 512-bit vectors.
  const bool wide = flags.count("avx512f") && flags.count("avx512cd") && flags.count("avx512bw") &&
                    flags.count("avx512dq") && flags.count("avx512vl");
  const std::set<std::string> wide_kernels = {"skylakex", "cooperlake", "sapphirerapids", "zen4"};
  const std::set<std::string> avx2_kernels = {"haswell", "zen", "excavator"};
  if (wide) {
    REQUIRE(wide_kernels.count(kernel) == 1, "kernel %s on a processor with AVX-512", kernel.c_str());
  } else if (flags.count("avx2")) {
    REQUIRE(avx2_kernels.count(kernel) == 1, "kernel %s on a processor with AVX2", kernel.c_str());
  }
  return 0;
}
