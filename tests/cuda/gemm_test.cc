// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests batches that have more matrices than one call of cuBLAS or cuSOLVER accepts.
#include "core/backend/cuda/plugin/gemm.h"

#include "tests/cuda/roots_on_device.h"

namespace shampoo::cuda_test {
namespace {

TEST_CASE("Gemm divides a batch that is too large for one call of cuBLAS") {
  fake_cuda_reset();
  fake_cuda_set_protection(0);
  const Device device;
  constexpr int64_t kCount = 70000;  // Gemm passes at most 32768 matrices to one call, so it makes three calls
  constexpr int64_t kStride = 3;     // elements from one 1 x 2 matrix to the next
  std::vector<float> values(static_cast<size_t>(kCount * kStride));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1021);
  const OnDevice<float> a(values);
  const OnDevice<float> shared(std::vector<float>{2, 1});
  for (const bool is_shared : {false, true}) {
    CAPTURE(is_shared);
    const OnDevice<float> c(std::vector<float>(static_cast<size_t>(kCount), -1));
    fake_cuda_mark();
    Check(Gemm(device.handles.blas, {}, 1, 1, 2, {a.data(), 2, kStride},
               {is_shared ? shared.data() : a.data(), 1, is_shared ? 0 : kStride}, {c.data(), 1, 1}, kCount));
    CHECK(fake_cuda_count(FAKE_CUDA_PRODUCTS) == 3);
    Check(cudaStreamSynchronize(device.handles.stream));
    CHECK(std::string(fake_cuda_problems()) == "");
    const std::vector<float> results = c.Read();
    int64_t wrong = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      const float x = values[i * kStride];
      const float y = values[i * kStride + 1];
      if (results[i] != (is_shared ? 2 * x + y : x * x + y * y)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("RootSolver accepts more matrices than one call of cuSOLVER accepts") {
  fake_cuda_reset();
  fake_cuda_set_protection(0);
  const std::vector<Matrix<float>> matrices(40000, Matrix<float>{2, 1, 1, 2});
  const Answer<float> answer = Solve<float>({}, 2, matrices);
  for (const size_t i : {size_t{0}, matrices.size() / 2, matrices.size() - 1}) {
    CHECK(answer.status[i].failure == RootFailure::kNone);
    CHECK(answer.matrices[i] == answer.matrices[0]);
  }
}

}  // namespace
}  // namespace shampoo::cuda_test
