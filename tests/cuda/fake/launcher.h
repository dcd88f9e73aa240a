// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <typeinfo>
#include <vector>

#include "tests/cuda/fake/call_scope.h"

// Runs kernels on the CPU. core/backend/cuda/plugin/cta.h describes the interface, and includes this file in builds for
// the fake.
namespace shampoo::cuda_fake {

// Returns a random number for the constructor of Order. fake_cuda_set_order() sets the seed.
uint64_t NextOrder();

// Visits each number below `count` once. The number `order` selects the order of the visits. Used for the CTAs of a
// kernel and for the iterations of a loop.
class Order {
 public:
  Order(int64_t count, uint64_t order) : count_(count) {
    if (count < 2) return;
    const auto number = static_cast<int64_t>(order >> 3 & 0x7fffffff);
    switch (order & 3) {
      case 0:
        break;
      case 1:
        step_ = count - 1;
        begin_ = count - 1;
        break;
      default:
        step_ = 1 + number % (count - 1);
        while (std::gcd(step_, count) != 1) ++step_;
        begin_ = number % count;
    }
  }
  template <typename Work>
  void ForEach(const Work& work) const {
    int64_t i = begin_;
    for (int64_t n = 0; n < count_; ++n) {
      work(i);
      i += step_;
      if (i >= count_) i -= count_;
    }
  }

 private:
  int64_t count_;
  int64_t step_ = 1;
  int64_t begin_ = 0;
};

cudaError_t LoadKernel(const std::type_info& body);
cudaError_t EnqueueKernel(cudaStream_t stream, int64_t ctas, const std::type_info& body,
                          std::function<void(int64_t)> run);

}  // namespace shampoo::cuda_fake

namespace shampoo::cuda {

inline constexpr int kCtaThreads = 256;

class Cta {
 public:
  explicit Cta(int64_t index) : index_(index) {}
  int64_t index() const { return index_; }

  template <typename Work>
  void ForEach(int64_t count, const Work& work) const {
    cuda_fake::Order(count, cuda_fake::NextOrder()).ForEach(work);
  }
  // Loads the values of all iterations before the first iteration runs, as the threads of a GPU may do.
  template <typename Load, typename Work>
  void ForEachLoaded(int64_t count, const Load& load, const Work& work) const {
    const auto loaded = LoadAll(count, load);
    ForEach(count, [&](int64_t i) { work(i, loaded[static_cast<size_t>(i)]); });
  }
  template <typename Work>
  void Once(const Work& work) const {
    work();
  }
  static void FenceHost() {}  // no fence is needed, because the host reads only while no work runs
  // Adds the terms in the same order as a GPU. First each thread adds its own terms. Then the second half of the sums
  // is added to the first half, repeatedly, until one sum remains.
  template <typename Term>
  double Sum(int64_t count, const Term& term) const {
    if (count <= 0) return 0;
    std::array<double, kCtaThreads> shared{};
    const int64_t threads = std::min<int64_t>(count, kCtaThreads);
    cuda_fake::Order(threads, cuda_fake::NextOrder()).ForEach([&](int64_t thread) {
      double sum = 0;
      for (int64_t i = thread; i < count; i += kCtaThreads) sum += term(i);
      shared[static_cast<size_t>(thread)] = sum;
    });
    for (size_t half = kCtaThreads / 2; half > 0; half /= 2) {
      if (half >= static_cast<size_t>(threads)) continue;  // the second half contains only zeros
      for (size_t i = 0; i < half; ++i) shared[i] += shared[i + half];
    }
    return shared[0];
  }
  template <typename Load, typename Term>
  double SumLoaded(int64_t count, const Load& load, const Term& term) const {
    const auto loaded = LoadAll(count, load);
    return Sum(count, [&](int64_t i) { return term(i, loaded[static_cast<size_t>(i)]); });
  }
  template <typename Term>
  uint64_t WrappingSum(int64_t count, const Term& term) const {
    uint64_t sum = 0;
    ForEach(count, [&](int64_t i) { sum += term(i); });
    return sum;
  }
  template <typename Term>
  uint64_t Largest(int64_t count, const Term& term) const {
    uint64_t largest = 0;
    ForEach(count, [&](int64_t i) { largest = std::max<uint64_t>(largest, term(i)); });
    return largest;
  }
  // As on a GPU, each thread stops at its own first match, so indices after the smallest match are also visited.
  template <typename Holds>
  int64_t First(int64_t count, const Holds& holds) const {
    int64_t first = count;
    ForEach(std::min<int64_t>(count, kCtaThreads), [&](int64_t thread) {
      for (int64_t i = thread; i < count; i += kCtaThreads) {
        if (!holds(i)) continue;
        first = std::min(first, i);
        return;
      }
    });
    return first;
  }

 private:
  template <typename Load>
  auto LoadAll(int64_t count, const Load& load) const {
    std::vector<decltype(load(count))> loaded;
    loaded.reserve(static_cast<size_t>(std::max<int64_t>(count, 0)));
    for (int64_t i = 0; i < count; ++i) loaded.push_back(load(i));
    return loaded;
  }

  int64_t index_;
};

template <typename Body>
cudaError_t LoadKernel() {
  return cuda_fake::LoadKernel(typeid(Body));
}

template <typename Body>
cudaError_t LaunchKernel(cudaStream_t stream, int64_t ctas, const Body& body) {
  const cuda_fake::CallScope scope;  // so that fake_cuda_in_call() is 1 while the std::function allocates
  return cuda_fake::EnqueueKernel(stream, ctas, typeid(Body), [body](int64_t index) { body(Cta(index)); });
}

}  // namespace shampoo::cuda
