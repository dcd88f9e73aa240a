// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <iostream>
#include <string>

#include "core/blas/blas.h"

namespace shampoo {

// Returns true if BLAS uses the kernels argv[1] and /proc/cpuinfo contains the flag argv[2]. If the program has no such
// arguments, returns true. Prints which kernels BLAS uses, and a message if the result is false.
inline bool KernelsRunHere(int argc, char** argv) {
  const std::string kernel = blas::Identify().kernel;
  std::cout << "kernel: " << kernel << '\n';
  if (argc <= 2) return true;
  std::ifstream file("/proc/cpuinfo");
  bool has_flag = false;
  for (std::string word; !has_flag && file >> word;) has_flag = word == argv[2];
  if (has_flag && kernel == argv[1]) return true;
  std::cout << "skipped: the kernels of " << argv[1] << " do not run here\n";
  return false;
}

}  // namespace shampoo
