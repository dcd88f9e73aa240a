// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/roots_chunk.h"
#include "core/rules/coupled_scalars.h"

// Root methods `newton` and `higher_order` (core/rules/coupled_scalars.h). Each kernel processes all members of a
// chunk: matrices of the same size. If a member has stopped, its X and Y are multiplied by I, which does not change
// them. After every few iterations, the host waits for the number of members that are still running, and ends the loop
// if this number is 0 (docs/adr/0027). The host does not wait while the stream is being captured.
namespace shampoo::cuda {
namespace {

class CoupledIteration {
 public:
  CoupledIteration(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                   const RunningCount& running)
      : chunk_(chunk),
        handles_(handles),
        running_(running),
        vectors_{buffers.vectors[0], buffers.vectors[1]},
        y_(buffers.matrices[0]),
        x_(buffers.matrices[1]),
        t_(buffers.matrices[2]),
        s_(buffers.matrices[3]) {}

  Status Run() {
    const bool higher = chunk_.spec.method == RootMethod::kHigherOrder;
    SHAMPOO_RETURN_IF_ERROR(Start(higher));
    const int64_t order = higher ? chunk_.spec.order : 2;
    const int64_t max_iterations = std::min(chunk_.spec.max_iterations, MaxUsefulIterations(p_, order));
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    SHAMPOO_CUDA_TRY(cudaStreamIsCapturing(handles_.stream, &capture));
    const bool may_wait = capture == cudaStreamCaptureStatusNone;
    bool is_running = true;
    for (int64_t number = 1; number <= max_iterations && is_running; ++number) {
      SHAMPOO_RETURN_IF_ERROR(higher && number > 1 ? SeriesFactor() : NewtonFactor());
      SHAMPOO_RETURN_IF_ERROR(Advance(number == 1));
      SHAMPOO_CUDA_TRY(EndIteration(handles_.stream, chunk_, y_, number));
      if (may_wait && number % kIterationsPerPoll == 0 && number < max_iterations) {
        SHAMPOO_RETURN_IF_ERROR(Poll(&is_running));
      }
    }
    SHAMPOO_CUDA_TRY(FinishRoot(handles_.stream, chunk_, nullptr, x_));
    // Load the matrix again, because the iteration has overwritten it.
    SHAMPOO_CUDA_TRY(LoadScaled(handles_.stream, chunk_, y_, true));
    SHAMPOO_RETURN_IF_ERROR(higher ? CheckProduct() : CheckProbe());
    SHAMPOO_CUDA_TRY(DeliverRoots(handles_.stream, chunk_, nullptr, x_));
    return Status();
  }

 private:
  Status Poll(bool* is_running) {
    SHAMPOO_CUDA_TRY(CountRunning(handles_.stream, chunk_, running_.on_device));
    SHAMPOO_CUDA_TRY(cudaEventRecord(running_.event, handles_.stream));
    SHAMPOO_CUDA_TRY(cudaEventSynchronize(running_.event));
    *is_running = __atomic_load_n(running_.on_host, __ATOMIC_ACQUIRE) != 0;
    return Status();
  }

  Status Start(bool higher) {
    SHAMPOO_CUDA_TRY(LoadScaled(handles_.stream, chunk_, y_, false));
    if (higher) {
      SHAMPOO_CUDA_TRY(SumRows(handles_.stream, chunk_, y_, false));
      SHAMPOO_RETURN_IF_ERROR(Multiply(y_, y_, s_));
      SHAMPOO_RETURN_IF_ERROR(Multiply(s_, s_, t_));
      SHAMPOO_CUDA_TRY(SumRows(handles_.stream, chunk_, t_, true));
    } else {
      SHAMPOO_CUDA_TRY(SumSquares(handles_.stream, chunk_, y_));
    }
    SHAMPOO_CUDA_TRY(StartCoupled(handles_.stream, chunk_, y_));
    return Status();
  }

  // Computes T <- ((p + 1) I - Y) / p.
  Status NewtonFactor() {
    const double diagonal = NewtonDiagonal(p_);
    SHAMPOO_CUDA_TRY(MakeFactor(handles_.stream, chunk_, y_, t_, 1, static_cast<double>(p_), diagonal));
    return Status();
  }

  // Computes T <- the sum of b_i (I - Y)^i for i < order, by Horner's rule. b_i: SeriesCoefficient(i, p).
  Status SeriesFactor() {
    const int64_t order = chunk_.spec.order;
    // Horner's rule begins with the terms of the two highest powers, b_(o-1) (I - Y) + b_(o-2) I, where o is the order.
    const double last = SeriesCoefficient(order - 1, p_);
    SHAMPOO_CUDA_TRY(MakeFactor(handles_.stream, chunk_, y_, t_, last, 1, last + SeriesCoefficient(order - 2, p_)));
    for (int64_t i = order - 3; i >= 0; --i) {
      // T <- T - T Y + b_i I
      SHAMPOO_RETURN_IF_ERROR(Multiply(t_, y_, s_, -1));
      SHAMPOO_CUDA_TRY(AddTerm(handles_.stream, chunk_, t_, s_, SeriesCoefficient(i, p_)));
      std::swap(t_, s_);
    }
    return Status();
  }

  // Computes X <- X T and Y <- T^p Y.
  Status Advance(bool first) {
    if (first) {
      SHAMPOO_CUDA_TRY(FirstRoot(handles_.stream, chunk_, t_, x_));
    } else {
      SHAMPOO_RETURN_IF_ERROR(Multiply(x_, t_, s_));
      std::swap(x_, s_);
    }
    return MultiplyByPower(&y_);
  }

  // Computes y <- T^p y. Overwrites T.
  Status MultiplyByPower(void** y) {
    for (int64_t bits = p_;; bits >>= 1) {
      if ((bits & 1) != 0) {
        SHAMPOO_RETURN_IF_ERROR(Multiply(t_, *y, s_));
        std::swap(*y, s_);
      }
      if (bits == 1) return Status();
      SHAMPOO_RETURN_IF_ERROR(Multiply(t_, t_, s_));
      std::swap(t_, s_);
    }
  }

  // Checks |X^(p - p/2) B X^(p/2) v - v| / |v|, with p/2 rounded down. B is the scaled matrix with its shift. v is the
  // vector RootChunk::signs.
  Status CheckProbe() {
    const void* from = chunk_.signs;
    int64_t stride = 0;
    size_t next = 0;
    const auto multiply = [&](const void* matrix) {
      void* const to = vectors_[next];
      const int64_t n = chunk_.n;
      Status status = Gemm(handles_.blas, {.dtype = chunk_.root_dtype}, n, 1, n, {matrix, n, n * n}, {from, 1, stride},
                           {to, 1, n}, chunk_.count);
      from = to;
      stride = n;
      next = 1 - next;
      return status;
    };
    for (int64_t i = 0; i < p_ / 2; ++i) SHAMPOO_RETURN_IF_ERROR(multiply(x_));
    SHAMPOO_RETURN_IF_ERROR(multiply(y_));
    for (int64_t i = p_ / 2; i < p_; ++i) SHAMPOO_RETURN_IF_ERROR(multiply(x_));
    SHAMPOO_CUDA_TRY(CheckByVector(handles_.stream, chunk_, from));
    return Status();
  }

  // Checks max |X^p B - I|, where B is the scaled matrix with its shift.
  Status CheckProduct() {
    const size_t bytes = static_cast<size_t>(chunk_.count * chunk_.n * chunk_.n) * SizeOf(chunk_.root_dtype);
    SHAMPOO_CUDA_TRY(cudaMemcpyAsync(t_, x_, bytes, cudaMemcpyDeviceToDevice, handles_.stream));
    SHAMPOO_RETURN_IF_ERROR(MultiplyByPower(&y_));
    SHAMPOO_CUDA_TRY(CheckByMatrix(handles_.stream, chunk_, y_));
    return Status();
  }

  // Computes c <- alpha a b.
  Status Multiply(const void* a, const void* b, void* c, double alpha = 1) {
    const int64_t n = chunk_.n;
    return Gemm(handles_.blas, {.dtype = chunk_.root_dtype, .alpha = alpha}, n, n, n, {a, n, n * n}, {b, n, n * n},
                {c, n, n * n}, chunk_.count);
  }

  const RootChunk& chunk_;
  const Handles& handles_;
  const RunningCount& running_;
  const int64_t p_ = chunk_.spec.numerator;
  void* vectors_[2];
  void* y_;
  void* x_;
  void* t_;
  void* s_;
};

}  // namespace

// An iteration maps an eigenvalue y of Y in (0, 1] to y T(y)^p, where T(y) is the sum of b_i (1 - y)^i for i < order.
// For method newton, the order is 2. The number of iterations until y is 1 is bounded as follows.
//   - All terms are positive, so T decreases from y = 0 to T(1) = 1 and is at most the infinite series, y^(-1/p). So y
//     stays in (0, 1]. While y is below 0.1, it grows by a factor of at least T(0.1)^p in each iteration.
//   - From 0.1 on, each iteration reduces 1 - y to its square or less, because (1 + (1 - y) / p)^p >= 1 + (1 - y).
//     9 iterations suffice: 0.9^(2^9) is less than the rounding error of float64.
//   - With method newton, the first iteration starts with y up to (p + 1) / 2 and can reduce it by a factor of at most
//     2^p. With method higher_order, it maps the smallest y to the smallest new value (StartHigherOrder).
//   - The smallest possible y is the smallest positive number of float64, divided by a norm of the scaled matrix B. The
//     elements of B are at most about 1, so this norm is at most about the number of rows (kDoublingsOfSize).
int64_t MaxUsefulIterations(int64_t root, int64_t order) {
  constexpr double kDoublingsOfFloat64 = 1074;
  constexpr double kDoublingsOfSize = 31;
  constexpr int64_t kFromTenth = 16;  // 9, and a few iterations to detect that the error no longer decreases
  double factor = 0;
  double power = 1;
  for (int64_t i = 0; i < order; ++i, power *= 0.9) factor += SeriesCoefficient(i, root) * power;
  const auto p = static_cast<double>(root);
  const double doublings = kDoublingsOfFloat64 + kDoublingsOfSize + p;
  return static_cast<int64_t>(std::ceil(doublings / (p * std::log2(factor)))) + kFromTenth;
}

Status CoupledRoots(const RootChunk& chunk, const Handles& handles, const RootBuffers& buffers,
                    const RunningCount& running) {
  return CoupledIteration(chunk, handles, buffers, running).Run();
}

}  // namespace shampoo::cuda
