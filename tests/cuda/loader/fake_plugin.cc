// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A fake libshampoo_cuda.so. The only function in its table is `describe`, which reports the number of GPUs and the
// CUDA versions. If the build sets FAKE_INTERFACE, FAKE_BLOCK_BYTES or FAKE_SYMBOL, the plugin does not match the
// library, and the library must reject the plugin. Otherwise, the plugin matches.
#include "tests/cuda/loader/fake_plugin.h"

#ifndef FAKE_INTERFACE
#define FAKE_INTERFACE kInterface
#endif
#ifndef FAKE_BLOCK_BYTES
#define FAKE_BLOCK_BYTES sizeof(Block)
#endif
#ifndef FAKE_SYMBOL
#define FAKE_SYMBOL shampoo_cuda_plugin
#endif

extern "C" __attribute__((visibility("default"))) shampoo::cuda::Description* shampoo_fake_description() {
  static shampoo::cuda::Description description{1, 12060, 12060, ""};
  return &description;
}

extern "C" __attribute__((visibility("default"))) const shampoo::cuda::Table* FAKE_SYMBOL() {
  using namespace shampoo::cuda;  // NOLINT
  using shampoo::Block;
  static const Table table = [] {
    Table made{};
    made.interface_number = FAKE_INTERFACE;
    made.block_bytes = static_cast<int32_t>(FAKE_BLOCK_BYTES);
    made.settings_bytes = sizeof(DeviceSettings);
    made.args_bytes = sizeof(StepArgs);
    made.report_bytes = sizeof(StepReport);
    made.describe = [](Description* out) { *out = *shampoo_fake_description(); };
    return made;
  }();
  return &table;
}
