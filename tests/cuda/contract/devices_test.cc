// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests several optimizers on two devices, on two streams of one device, and on two threads. Checks that calls do not
// change the current device of a thread.
#include <thread>

#include "tests/cuda/contract/pair.h"

namespace shampoo_test {
namespace {

int Current() {
  int device = -1;
  MustCuda(cudaGetDevice(&device));
  return device;
}

struct OnDevice {
  explicit OnDevice(int device) { MustCuda(cudaSetDevice(device)); }
  ~OnDevice() { (void)cudaSetDevice(0); }
};

ModelSpec At(int device, const Keys& keys = {}) {
  ModelSpec spec = FiveShapes(keys);
  spec.device_id = device;
  return spec;
}

TEST_CASE("every function leaves the current device unchanged, whether or not the optimizer is on this device" *
          NeedsFake()) {
  const Stage stage;
  cudaStream_t stream = nullptr;
  MustCuda(cudaSetDevice(1));
  MustCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* arena = nullptr;
  MustCuda(cudaMalloc(&arena, 1 << 20));
  for (const int current : {0, 1}) {
    CAPTURE(current);
    const OnDevice on(current);
    const auto kept = [&](shampoo_status status) {
      CHECK(Current() == current);
      return status;
    };
    Model model(At(1), stream);
    CHECK(Current() == current);
    model.FillGradients(1);
    Must(kept(model.TryStep()));
    Must(kept(model.TryStep()));
    Must(kept(model.Status()));
    CHECK(model.State("group.0/step")[0] == 2);
    CHECK(Current() == current);
    model.SetState("group.0/step", {3});
    CHECK(Current() == current);
    Must(kept(shampoo_optimizer_bind_state(model.optimizer, arena, arena)));
    Must(kept(shampoo_optimizer_bind_state(model.optimizer, nullptr, nullptr)));
    shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
    Must(kept(shampoo_backend_describe(1, &info)));
    // After a step without failures, makes steps in which the first call of `function` fails. A function of cuBLAS
    // returns 13 (CUBLAS_STATUS_EXECUTION_FAILED), and other functions return 999 (cudaErrorUnknown).
    Must(kept(model.TryStep()));
    for (const char* function : {"cudaEventQuery", "cudaEventRecord", "Launch", "cublasGemmStridedBatchedEx"}) {
      CAPTURE(std::string(function));
      fake_cuda_fail(function, 1, std::string(function).rfind("cu", 0) == 0 && function[2] == 'b' ? 13 : 999);
      CHECK(kept(model.TryStep()) == SHAMPOO_E_DEVICE);
      CHECK(fake_cuda_cancel_failures() == 0);
    }
    CHECK(kept(shampoo_optimizer_step(model.optimizer, reinterpret_cast<void*>(uintptr_t{77}))) == SHAMPOO_E_DEVICE);
    shampoo_optimizer_destroy(std::exchange(model.optimizer, nullptr));
    CHECK(Current() == current);
  }
  MustCuda(cudaFree(arena));
  MustCuda(cudaStreamDestroy(stream));
}

TEST_CASE("create leaves the current device unchanged if a call of CUDA fails" * doctest::test_suite("long")) {
  for (int64_t nth = 1;; ++nth) {
    CAPTURE(nth);
    const Stage stage;
    const PlanPtr plan = MakePlan(At(1));
    const shampoo_optimizer_desc desc = DeviceDesc(1);
    fake_cuda_fail(nullptr, nth, cudaErrorUnknown);
    shampoo_optimizer* made = nullptr;
    const shampoo_status status = shampoo_optimizer_create(&made, plan.get(), &desc);
    const bool failed = fake_cuda_cancel_failures() == 0;
    // Create ignores the failures of some calls, such as the call that should restore the current device. If this call
    // fails, device 1 may still be the current device.
    if (failed && status == SHAMPOO_OK) MustCuda(cudaSetDevice(0));
    CHECK(Current() == 0);
    shampoo_optimizer_destroy(made);
    CHECK(Current() == 0);
    if (!failed) break;
  }
}

TEST_CASE("two optimizers on two devices or on one device give the same results as each optimizer alone") {
  const int last = Devices() - 1;
  std::vector<std::vector<char>> alone;
  for (const int i : {0, 1}) {
    const Stage stage;
    const int device = std::min(i, last);
    const OnDevice on(device);
    const TestStream stream;
    Model model(At(device, {{"beta1", i == 0 ? "0.9" : "0.5"}}), stream);
    model.Train(1, 5);
    alone.push_back(BitsOf(model));
  }
  for (const int order : {int{FAKE_CUDA_OLDEST_FIRST}, int{FAKE_CUDA_YOUNGEST_FIRST}, int{FAKE_CUDA_RANDOM}}) {
    for (int second = 0; second <= last; ++second) {
      INFO("order ", order, ", second device ", second);
      const StageWithStream stream(order);
      MustCuda(cudaSetDevice(second));
      const TestStream other;
      MustCuda(cudaSetDevice(0));
      Model a(At(0, {{"beta1", "0.9"}}), stream);
      Model b(At(second, {{"beta1", "0.5"}}), other);
      for (uint64_t t = 1; t <= 5; ++t) {
        for (Model* model : {&a, &b}) model->FillGradients(t);
        // The steps of both models run at the same time.
        a.Step();
        b.Step();
        fake_cuda_progress(30);
      }
      CHECK(BitsOf(a) == alone[0]);
      CHECK(BitsOf(b) == alone[1]);
    }
  }
}

TEST_CASE("two optimizers on two threads give equal results, even if each step runs on a new thread") {
  const Stage stage;
  std::vector<char> results[2];
  const int last = Devices() - 1;
  const auto train = [&](int i) {
    const int device = std::min(i, last);
    MustCuda(cudaSetDevice(device));
    const TestStream stream;
    Model model(At(device), stream);
    for (uint64_t t = 1; t <= 5; ++t) {
      model.FillGradients(t);
      // On a new thread the current device is 0.
      std::thread([&] { model.Step(); }).join();
    }
    CHECK(Current() == device);
    results[i] = BitsOf(model);
  };
  std::thread first([&] { train(0); });
  std::thread second([&] { train(1); });
  first.join();
  second.join();
  CHECK(results[0] == results[1]);
}

}  // namespace
}  // namespace shampoo_test
