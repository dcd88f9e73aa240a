// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/contract/training.h"

#include <algorithm>

namespace shampoo_test {

Training::Training(const ModelSpec& spec, cudaStream_t stream, int steps)
    : model_(spec, stream), rates_(static_cast<size_t>(steps)), rate_(sizeof(float)) {
  MustCuda(cudaEventCreateWithFlags(&moved_, cudaEventDisableTiming));
  Must(shampoo_optimizer_bind_scalar(model_.optimizer, 0, "lr", SHAMPOO_F32, rate_.get()));
  for (int t = 1; t <= steps; ++t) {
    rates_.get()[t - 1] = 0.125F / static_cast<float>(t);
    gradients_.emplace_back();
    seen_.emplace_back();
    for (size_t p = 0; p < spec.params.size(); ++p) {
      gradients_.back().emplace_back(model_.elements(p));
      gradients_.back().back().Set(Sequence(100 * static_cast<uint64_t>(t) + p, model_.elements(p)));
      seen_.back().emplace_back(model_.elements(p));
      std::fill_n(seen_.back().back().get(), model_.elements(p), 0.0F);
    }
  }
}

Training::~Training() {
  (void)cudaStreamSynchronize(model_.stream);  // the copies of Step() must be done before their memory is freed
  (void)cudaEventDestroy(moved_);
}

void Training::MoveTo(cudaStream_t stream) {
  MustCuda(cudaEventRecord(moved_, model_.stream));
  MustCuda(cudaStreamWaitEvent(stream, moved_, 0));
  model_.stream = stream;
}

shampoo_status Training::Step(int t) {
  const std::vector<PinnedFloats>& gradients = gradients_[static_cast<size_t>(t - 1)];
  const std::vector<PinnedFloats>& seen = seen_[static_cast<size_t>(t - 1)];
  cudaStream_t const stream = model_.stream;
  for (size_t p = 0; p < gradients.size(); ++p) {
    MustCuda(cudaMemcpyAsync(model_.grad(p), gradients[p].get(), gradients[p].bytes(), cudaMemcpyDefault, stream));
  }
  MustCuda(cudaMemcpyAsync(rate_.get(), rates_.get() + t - 1, sizeof(float), cudaMemcpyDefault, stream));
  const shampoo_status status = model_.TryStep();
  MustCuda(cudaMemsetAsync(rate_.get(), 0xff, sizeof(float), stream));
  for (size_t p = 0; p < seen.size(); ++p) {
    MustCuda(cudaMemcpyAsync(seen[p].get(), model_.param(p), seen[p].bytes(), cudaMemcpyDefault, stream));
    MustCuda(cudaMemsetAsync(model_.grad(p), 0xff, gradients[p].bytes(), stream));
  }
  return status;
}

std::vector<char> Training::Result() {
  model_.Wait();
  std::vector<char> result = BitsOf(model_);
  for (const std::vector<PinnedFloats>& of_step : seen_) {
    for (const PinnedFloats& seen : of_step) {
      const char* const bytes = reinterpret_cast<const char*>(seen.get());
      result.insert(result.end(), bytes, bytes + seen.bytes());
    }
  }
  return result;
}

}  // namespace shampoo_test
