// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the library on machines on which CUDA or one of the devices cannot be used. The library reports the reason, and
// plans can still be created.
#include "tests/cuda/tools/stage.h"

namespace shampoo_test {
namespace {

shampoo_backend_info Cuda() {
  UsePlugin();
  REQUIRE(shampoo_backend_count() == 2);
  shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
  Must(shampoo_backend_describe(1, &info));
  CHECK(std::string(info.name) == "cuda");
  return info;
}

TEST_CASE("the backend reports the number of devices" * NeedsFake()) {
  const Stage stage;
  for (const int devices : {1, 2}) {
    fake_cuda_set_system(devices, CUDART_VERSION, CUDART_VERSION);
    const shampoo_backend_info info = Cuda();
    CHECK(info.usable == 1);
    CHECK(info.device_count == devices);
    CHECK(std::string(info.unavailable_reason) == "");
  }
}

TEST_CASE("if CUDA cannot be used then shampoo_backend_describe and shampoo_optimizer_create report the reason" *
          NeedsFake()) {
  struct Case {
    int devices, driver, runtime;
    std::vector<const char*> words;
  };
  const std::vector<Case> cases = {
      {2, 0, 12060, {"there is no", "driver"}},      {0, 12060, 12060, {"no ", "device", "CUDA_VISIBLE_DEVICES"}},
      {2, 12040, 12060, {"driver", "12.4", "12.6"}}, {2, 12090, 13000, {"driver", "12.9", "13.0", "major version"}},
      {2, 11080, 12060, {"driver", "11.8", "12.6"}},
  };
  for (const Case& one : cases) {
    INFO("driver ", one.driver, ", devices ", one.devices);
    const Stage stage;
    fake_cuda_set_system(one.devices, one.driver, one.runtime);
    const shampoo_backend_info info = Cuda();
    CHECK(info.usable == 0);
    CHECK(info.device_count == 0);
    const std::string unavailable_reason = info.unavailable_reason;
    for (const char* word : one.words)
      CHECK_MESSAGE(unavailable_reason.find(word) != std::string::npos, unavailable_reason);
    CheckCreateFails(MakePlan(FiveShapes()).get(), DeviceDesc(), SHAMPOO_E_UNSUPPORTED, unavailable_reason);
    // The pointer to the previous reason stays valid after the system has changed.
    fake_cuda_set_system(2, CUDART_VERSION, CUDART_VERSION);
    CHECK(Cuda().usable == 1);
    CHECK(unavailable_reason == info.unavailable_reason);
  }
}

TEST_CASE("a driver is accepted if its CUDA version is at least that of the runtime" * NeedsFake()) {
  for (const int driver : {12060, 12090, 13010}) {
    const Stage stage;
    fake_cuda_set_system(1, driver, 12060);
    CHECK(Cuda().usable == 1);
  }
}

// The plugin (libshampoo_cuda.so) of these tests has code for the compute capabilities 8.x, 9.x, and 10.0 or later.
TEST_CASE("devices for which the plugin has no kernels are reported, and no optimizer can be created on them" *
          NeedsFake()) {
  const Stage stage;
  const char* const text = "device 0 has compute capability 7.5; this build supports 8.x, 9.x, 10.0 or later";
  const PlanPtr plan = MakePlan(FiveShapes());
  const auto create = [&](int32_t device) {
    const shampoo_optimizer_desc desc = DeviceDesc(device);
    shampoo_optimizer* made = nullptr;
    const shampoo_status status = shampoo_optimizer_create(&made, plan.get(), &desc);
    CHECK((made != nullptr) == (status == SHAMPOO_OK));
    shampoo_optimizer_destroy(made);
    return status;
  };
  fake_cuda_set_compute_capability(0, 7, 5);
  CHECK(Cuda().usable == 1);
  CHECK(Cuda().device_count == 2);
  CheckError(create(0), SHAMPOO_E_UNSUPPORTED, text);
  CHECK(create(1) == SHAMPOO_OK);
  fake_cuda_set_compute_capability(1, 7, 0);
  CHECK(Cuda().usable == 0);
  CHECK(std::string(Cuda().unavailable_reason).find(text) == 0);
  CHECK(create(1) == SHAMPOO_E_UNSUPPORTED);
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {9, 0}, {10, 3}, {12, 0}}) {
    fake_cuda_set_compute_capability(0, major, minor);
    CHECK(create(0) == SHAMPOO_OK);
  }
  // An optimizer cannot be created if CUDA finds no kernel for a device, even if the build supports the device.
  fake_cuda_reset();
  fake_cuda_fail("cudaFuncGetAttributes", 1, cudaErrorNoKernelImageForDevice);
  CHECK(create(0) == SHAMPOO_E_UNSUPPORTED);
  CHECK(std::string(shampoo_last_error()).find("device 0 has compute capability 9.0; this build supports") == 0);
}

TEST_CASE("a device that does not exist is an error") {
  const Stage stage;
  const PlanPtr plan = MakePlan(FiveShapes());
  int count = 0;
  MustCuda(cudaGetDeviceCount(&count));
  for (const int device : {-1, count}) {
    CheckCreateFails(plan.get(), DeviceDesc(device), SHAMPOO_E_INVALID,
                     "device_id is " + std::to_string(device) + ": expected 0 to " + std::to_string(count - 1));
  }
}

}  // namespace
}  // namespace shampoo_test
