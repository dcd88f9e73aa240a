// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of libshampoo.so with steps on a device, with a fake plugin.
// Arguments: the path of the fake plugin, then those of doctest.
#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>

#include <cstdio>

#include "tests/cuda/host/device_host.h"

namespace shampoo_test {
namespace {

FakeDevice* fake = nullptr;  // NOLINT: set by main

}  // namespace

FakeDevice& TheFake() { return *fake; }

}  // namespace shampoo_test

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (shampoo_backend_load(argv[1]) != SHAMPOO_OK) {
    std::puts(shampoo_last_error());
    return 2;
  }
  void* const library = dlopen(argv[1], RTLD_NOW);
  auto* const function = reinterpret_cast<shampoo_test::FakeFunction>(dlsym(library, shampoo_test::kFakeSymbol));
  shampoo_test::fake = function();
  return doctest::Context(argc - 1, argv + 1).run();
}
