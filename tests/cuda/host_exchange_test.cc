// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests HostExchange: the pinned memory through which steps exchange data over communicators that take host memory.
#include "core/backend/cuda/plugin/host_exchange.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/fake/control.h"

namespace shampoo::cuda {
namespace {

constexpr int64_t kBytes = 1024;

// A stream, and device memory whose bytes initially all have the same value.
struct Place {
  explicit Place(char byte) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data), kBytes) == cudaSuccess);
    REQUIRE(cudaMemset(data, byte, kBytes) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  ~Place() {
    (void)cudaStreamDestroy(stream);
    (void)cudaFree(data);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool Contains(char byte) const {
    std::vector<char> bytes(kBytes);
    REQUIRE(cudaMemcpyAsync(bytes.data(), data, kBytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    return std::count(bytes.begin(), bytes.end(), byte) == kBytes;
  }

  char* data = nullptr;
  cudaStream_t stream = nullptr;
};

TEST_CASE("Fetch writes the pinned memory only after earlier copies from this memory have ended on all streams") {
  fake_cuda_reset();
  {
    std::unique_ptr<HostExchange> exchange;
    REQUIRE(HostExchange::Create(kBytes, &exchange).ok());
    const Place first('1');
    const Place second('2');
    std::memset(exchange->memory(), 'r', kBytes);
    fake_cuda_mark();
    REQUIRE(exchange->Return(first.data, 0, kBytes, first.stream).ok());
    CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 0);
    REQUIRE(exchange->Fetch(0, second.data, kBytes, second.stream).ok());
    CHECK(std::count(exchange->memory(), exchange->memory() + kBytes, '2') == kBytes);
    CHECK(first.Contains('r'));
    // A rank may send or receive nothing. Calls with 0 bytes must therefore succeed and copy nothing.
    REQUIRE(exchange->Return(second.data, 0, 0, second.stream).ok());
    REQUIRE(exchange->Fetch(0, first.data, 0, first.stream).ok());
    CHECK(second.Contains('2'));
  }
  CHECK(fake_cuda_problems() == std::string());
  CHECK(fake_cuda_leaks() == std::string());
  fake_cuda_reset();
}

}  // namespace
}  // namespace shampoo::cuda
