// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A fake CUDA plugin for tests. The plugin returns the function table that the test passed to SetFakeTable().
#include "core/backend/cuda/interface.h"

namespace {

const shampoo::cuda::Table* table_of_test = nullptr;

}  // namespace

extern "C" __attribute__((visibility("default"))) void SetFakeTable(const shampoo::cuda::Table* table) {
  table_of_test = table;
}

extern "C" __attribute__((visibility("default"))) const shampoo::cuda::Table* shampoo_cuda_plugin() {
  return table_of_test;
}
