// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Test of a device fault, after which the process cannot use CUDA any more. On a GPU, this test needs its own process.
#include <optional>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {
namespace {

// Causes a device fault. On a GPU, a step causes the fault, because it reads a gradient from an address that is not
// mapped.
void CauseFault(Model* model) {
  if (OnFake()) {
    fake_cuda_fault(cudaErrorIllegalAddress);
    return;
  }
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = buffers.out = model->param(0);
  buffers.grad = reinterpret_cast<void*>(uintptr_t{4096});
  Must(shampoo_optimizer_bind(model->optimizer, 0, 1, &buffers));
  (void)shampoo_optimizer_step(model->optimizer, model->stream);
  REQUIRE(cudaStreamSynchronize(model->stream) == cudaErrorIllegalAddress);
}

TEST_CASE("after a device fault, every call reports it, and destroy leaks nothing" * doctest::test_suite("fault")) {
  std::optional<Stage> stage;  // empty on a GPU, where a Stage would report the fault as misuse
  if (OnFake()) stage.emplace();
  const TestStream stream;
  ModelSpec spec;
  spec.params = {{{4, 3}}, {{4, 3}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64}, {{40}}};
  spec.keys = "epsilon=0.1 status_lag=0";
  Model model(spec, stream);
  model.Step(1);
  CauseFault(&model);
  float value = 7;
  for (int i = 0; i < 2; ++i) {
    CheckError(shampoo_optimizer_step(model.optimizer, stream), SHAMPOO_E_DEVICE, "cudaErrorIllegalAddress");
    CHECK(model.Status() == SHAMPOO_E_DEVICE);
    CHECK(shampoo_state_read(model.optimizer, 1, 0, 1, &value, sizeof value, SHAMPOO_CPU, stream) == SHAMPOO_E_DEVICE);
    CHECK(value == 7);
    const shampoo_optimizer_desc desc = DeviceDesc();
    shampoo_optimizer* made = nullptr;
    CHECK(shampoo_optimizer_create(&made, model.plan.get(), &desc) != SHAMPOO_OK);
    CHECK(made == nullptr);
  }
}

}  // namespace
}  // namespace shampoo_test
