// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <thread>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

// Returns parameters whose blocks have different sizes, dtypes and orders. One parameter is a stack, one is a shard,
// and two are in group 1. The gradient check divides the parameter "embedding" into two spans
// (core/step/scan_spans.h).
std::vector<shampoo_param_desc> MixedModel() {
  std::vector<shampoo_param_desc> params = {Param("large", {160, 130}),         Param("half", {40, 33}, SHAMPOO_F16),
                                            Param("brain", {70}, SHAMPOO_BF16), Param("wide", {9, 8}, SHAMPOO_F64),
                                            Param("convolution", {6, 4, 3, 3}), Param("layers", {5, 12, 7}),
                                            Param("shard", {30, 20}),           Param("scalar", {}),
                                            Param("embedding", {3000, 24})};
  params[5].stack_dims = 1;
  params[6] = FlatShard(params[6], 33, 411);
  params[3].group = params[4].group = 1;
  return params;
}

const std::vector<Keys> kGroups = {"grafting=rmsprop max_preconditioner_dim=96 momentum=0.9",
                                   "grafting=adam max_preconditioner_dim=5 precondition_frequency=2 "
                                   "use_merge_dims=false inverse_dtype=bf16 weight_decay=0.01"};

std::vector<std::vector<char>> Train(int32_t threads, int steps = 3) {
  Host host(kGroups, MixedModel(), threads);
  std::mt19937_64 random = host.FillFrom(3);
  for (int t = 0; t < steps; ++t) {
    host.FillGradients(random);
    host.tensors[1].has_grad = t != 1;
    host.Step();
  }
  return host.Everything();
}

TEST_CASE("every number of threads gives bit-identical results") {
  const auto expected = Train(1);
  for (const int32_t threads : {2, 3, 5, 16}) {
    CAPTURE(threads);
    CHECK(Train(threads) == expected);
  }
  CHECK(Train(1, 2) != expected);
}

TEST_CASE("blocks that are divided among threads give bit-identical results") {
  CheckThreads("grafting=adam momentum=0.9 precondition_frequency=2 threads=0 use_merge_dims=false",
               {Param("large", {1024, 600}), Param("half", {512, 512}, SHAMPOO_BF16), Param("long", {1024, 140}),
                Param("vector", {1024}), Param("stack", {40, 64, 64})},
               2);
}

TEST_SUITE("long") {
  TEST_CASE("contractions and rank-k updates that are divided among threads give bit-identical results") {
    const Keys often = "precondition_frequency=1 basis_method=qr";
    for (const Keys& method : {Keys("method=shampoo precondition_frequency=2"), "method=soap" + often,
                               "method=soap factor_correction=kl" + often, Keys("method=kl_shampoo") + often}) {
      CAPTURE(method);
      // The library divides no contraction of a smaller square matrix among threads (core/backend/cpu/kronecker.cc).
      CheckThreads(method + "threads=0", {Param("large", {1024, 1024})}, 3, {3});
    }
  }
}

TEST_CASE("optimizers on several threads do not affect each other") {
  const auto expected = Train(1);
  constexpr int kOptimizers = 4;
  // The threads only compute; the assertions run on the main thread.
  std::vector<std::unique_ptr<Host>> hosts;
  for (int i = 0; i < kOptimizers; ++i) hosts.push_back(std::make_unique<Host>(kGroups, MixedModel(), 1 + i % 3));
  std::vector<shampoo_status> status(kOptimizers, SHAMPOO_OK);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kOptimizers; ++i) {
    threads.emplace_back([&, i] {
      Host& host = *hosts[i];
      std::mt19937_64 random = host.FillFrom(3);
      for (int t = 0; t < 3; ++t) {
        host.FillGradients(random);
        host.tensors[1].has_grad = t != 1;
        for (size_t p = 0; p < host.tensors.size(); ++p) {
          shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
          buffers.param = buffers.out = host.tensors[p].w.data();
          if (host.tensors[p].has_grad) buffers.grad = host.tensors[p].g.data();
          status[i] |= shampoo_optimizer_bind(host.optimizer, static_cast<int32_t>(p), 1, &buffers);
        }
        status[i] |= shampoo_optimizer_step(host.optimizer, nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kOptimizers; ++i) {
    CHECK(status[i] == SHAMPOO_OK);
    CHECK(hosts[i]->Everything() == expected);
  }
}

}  // namespace
}  // namespace shampoo_test
