// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/roots_chunk.h"
#include "core/rules/cans_scalars.h"

// Root method cans (core/rules/cans_scalars.h). The host enqueues the same fixed sequence of products for all matrices
// of a chunk, so it never waits for the device.
namespace shampoo::cuda {
namespace {

class CansIteration {
 public:
  CansIteration(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers)
      : chunk_(chunk),
        handles_(handles),
        roots_(buffers.vectors[0]),
        r_(buffers.vectors[1]),
        vectors_{buffers.vectors[2], buffers.vectors[3]},
        y_(buffers.matrices[0]),
        z_(buffers.matrices[1]),
        p_(buffers.matrices[2]),
        s_(buffers.matrices[3]) {}

  Status Run() {
    SHAMPOO_CUDA_TRY(DiagonalRoots(handles_.stream, chunk_, roots_));
    SHAMPOO_CUDA_TRY(LoadScaled(handles_.stream, chunk_, y_, true));
    if (CansPasses(chunk_.spec) == 2) {
      SHAMPOO_RETURN_IF_ERROR(Pass(false));
      SHAMPOO_CUDA_TRY(Symmetrize(handles_.stream, chunk_, y_, s_, false));
      std::swap(y_, s_);
    }
    SHAMPOO_RETURN_IF_ERROR(Pass(true));
    void* const x = s_;
    SHAMPOO_CUDA_TRY(Symmetrize(handles_.stream, chunk_, z_, x, true));
    SHAMPOO_CUDA_TRY(FinishRoot(handles_.stream, chunk_, roots_, x));
    SHAMPOO_RETURN_IF_ERROR(Check(x));
    SHAMPOO_CUDA_TRY(DeliverRoots(handles_.stream, chunk_, roots_, x));
    return Status();
  }

 private:
  // Divides Y by its norm. Then computes Y <- Y^(1/2) or, if is_inverse is true, Z <- Y^(-1/2).
  Status Pass(bool is_inverse) {
    SHAMPOO_CUDA_TRY(RecordNorm(handles_.stream, chunk_, y_, is_inverse));
    SHAMPOO_CUDA_TRY(DivideByNorm(handles_.stream, chunk_, y_, p_));
    for (const CansStep& step : kCansSteps) {
      const bool is_first = &step == &kCansSteps.front();
      const bool is_last = &step == &kCansSteps.back();
      SHAMPOO_CUDA_TRY(CansFactor(handles_.stream, chunk_, p_, is_first ? z_ : nullptr, step.a, step.b));
      if (!is_first && (!is_last || is_inverse)) {
        SHAMPOO_RETURN_IF_ERROR(Multiply(p_, z_, s_));
        std::swap(z_, s_);
      }
      if (!is_last || !is_inverse) {
        SHAMPOO_RETURN_IF_ERROR(Multiply(y_, p_, s_));
        std::swap(y_, s_);
      }
      if (!is_last) SHAMPOO_RETURN_IF_ERROR(Multiply(z_, y_, p_));
    }
    return Status();
  }

  // Checks X, which should be B^(-1/power), with power = -1 / exponent. B is the scaled matrix plus its shift
  // (LoadScaled). Multiplies the vector RootChunk::signs by I - X^(power/2) B X^(power/2), kCansProducts times in a
  // row. Overwrites Y with B.
  Status Check(const void* x) {
    SHAMPOO_CUDA_TRY(LoadScaled(handles_.stream, chunk_, y_, true));
    const int64_t n = chunk_.n;
    const auto power = static_cast<int>(-1 / chunk_.spec.exponent);
    for (int product = 0; product < kCansProducts; ++product) {
      const bool is_first = product == 0;
      GemmInput from = is_first ? GemmInput{chunk_.signs, 1, 0} : GemmInput{r_, 1, n};
      size_t next = 0;
      for (int i = 0; i <= power; ++i) {
        void* const to = vectors_[next];
        SHAMPOO_RETURN_IF_ERROR(Gemm(handles_.blas, {.dtype = chunk_.root_dtype}, n, 1, n,
                                     {i == power / 2 ? y_ : x, n, n * n}, from, {to, 1, n}, chunk_.count));
        from = {to, 1, n};
        next = 1 - next;
      }
      SHAMPOO_CUDA_TRY(SubtractProduct(handles_.stream, chunk_, r_, from.data, is_first, product == kCansProducts - 1));
    }
    return Status();
  }

  // Computes c <- a b.
  Status Multiply(const void* a, const void* b, void* c) {
    const int64_t n = chunk_.n;
    return Gemm(handles_.blas, {.dtype = chunk_.root_dtype}, n, n, n, {a, n, n * n}, {b, n, n * n}, {c, n, n * n},
                chunk_.count);
  }

  const RootChunk& chunk_;
  const Handles& handles_;
  void* roots_;
  void* r_;
  void* vectors_[2];
  void* y_;
  void* z_;
  void* p_;
  void* s_;
};

}  // namespace

Status CansRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers) {
  return CansIteration(chunk, handles, buffers).Run();
}

}  // namespace shampoo::cuda
