// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/roots/resolvent_root.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/round_up.h"
#include "core/blas/blas.h"
#include "core/blas/eigensolver_stages.h"
#include "core/roots/matrix.h"
#include "core/roots/probe.h"
#include "core/roots/reflectors.h"
#include "core/roots/resolvent.h"
#include "core/roots/solver.h"

namespace shampoo {
namespace {

// ResolventResult defines A, T, Q, X, Y, u and the probe vector v. ResolventSum defines the generators.

// A call of ResolventSum::Grow() computes at most this many columns. A panel has at most this many reflectors.
constexpr int64_t kWidth = ResolventSum::kColumns;
// Returns the number of reflectors in a panel. Wider panels make products faster but take longer to prepare.
constexpr int64_t PanelWidth(int64_t n) { return n <= 128 ? 16 : kWidth; }
// The number of probe vectors. They are u, T u and Y u at first. Window::Apply() multiplies them by Q, which gives v,
// av and xv of ResolventResult.
constexpr int64_t kProbes = 3;
constexpr int64_t kMaxStride = ZolotarevSum::kMaxPoles + kProbes;
// The largest ResolventResult::root_error that Fits() accepts. This limit is 30 times the largest error that was
// measured with condition number ResolventSum::kLargestCondition.
constexpr double kLargestRootError = 1e-5;

// Returns how many columns LAPACK reduces before it updates the other columns.
constexpr int64_t ReductionWidth(int64_t n) { return n < 192 ? 8 : n < 384 ? 16 : 32; }

// Divides the workspace of the root into arrays. Here v is the array of reflectors, not the probe vector.
struct Memory {
  int64_t ld;                        // row stride of v
  float *v, *x;                      // v: n x ld, reflectors; x: n x n, the root
  double *d, *e, *u, *y, *z;         // n elements each: d and e of T, and three vectors
  double* inverses;                  // ResolventSum::Elements
  float *tau, *narrow_d, *narrow_e;  // n elements each
  float* generators;                 // n x kMaxStride
  float *panel, *products;           // panel: kWidth x ld; products: kWidth x n

  Memory(int64_t n, float* memory) {
    ld = RoundUp(n, TridiagonalKernels::kRowMultiple);
    v = memory;
    x = v + n * ld;
    float* const end = x + n * n;
    const auto address = reinterpret_cast<intptr_t>(end);
    auto* next_wide =
        reinterpret_cast<double*>(reinterpret_cast<char*>(end) + (RoundUp(address, kAlignment) - address));
    const auto wide = [&next_wide](int64_t count) { return std::exchange(next_wide, next_wide + count); };
    d = wide(n);
    e = wide(n);
    u = wide(n);
    y = wide(n);
    z = wide(n);
    inverses = wide(ResolventSum::Elements(n));
    auto* next = reinterpret_cast<float*>(next_wide);
    const auto narrow = [&next](int64_t count) { return std::exchange(next, next + count); };
    panel = narrow(kWidth * ld);  // first, so that it is aligned: it is also scratch memory for doubles
    products = narrow(kWidth * n);
    tau = narrow(n);
    narrow_d = narrow(n);
    narrow_e = narrow(n);
    generators = narrow(n * kMaxStride);
  }

  // Returns how much memory the arrays need together, in floats.
  static constexpr int64_t Elements(int64_t n) {
    const int64_t ld = RoundUp(n, TridiagonalKernels::kRowMultiple);
    const int64_t wide = 5 * n + ResolventSum::Elements(n);
    const int64_t narrow = kWidth * (ld + n) + 3 * n + n * kMaxStride;
    return n * (ld + n) + kAlignment / 4 + 2 * wide + narrow;
  }

 private:
  static constexpr int64_t kAlignment = 64;  // of the array d, in bytes
};

static_assert(Memory::Elements(kMinResolventSize) <= RootWorkspace<float>::ResolventWork(kMinResolventSize));
static_assert(Memory::Elements(kMaxResolventSize) <= RootWorkspace<float>::ResolventWork(kMaxResolventSize));

// Reduces A to the tridiagonal matrix T. Sets v, ld, tau, d and e of *memory. Returns LAPACK's info, or 0 if a kernel
// of the library reduced A.
int Reduce(int64_t n, const float* a, bool by_lapack, Memory* memory) {
  const auto reduce = BestKernels().tridiagonal.reduce;
  if (reduce == nullptr || by_lapack) memory->ld = n;
  const int64_t ld = memory->ld;
  for (int64_t i = 0; i < n; ++i) {
    float* const row = memory->v + i * ld;
    std::copy(a + i * n, a + i * n + i + 1, row);
    std::fill(row + i + 1, row + ld, 0.0f);
  }
  if (reduce != nullptr && !by_lapack) {
    reduce(memory->v, ld, n, memory->d, memory->e, memory->tau, memory->panel);
    return 0;
  }
  const int info =
      blas::Sytrd(n, memory->v, memory->narrow_d, memory->narrow_e, memory->tau, ReductionWidth(n), memory->panel);
  std::copy(memory->narrow_d, memory->narrow_d + n, memory->d);
  std::copy(memory->narrow_e, memory->narrow_e + n - 1, memory->e);
  return info;
}

// Computes X in the n x n array Memory::x. A window also has the generators and the probe vectors. Grow() appends rows
// and columns of Y to the leading square of the array. Apply() multiplies this square by reflectors of Q from both
// sides, and the generators and probe vectors from the left. After the last calls of both, the array contains the lower
// triangle of X.
class Window {
 public:
  Window(int64_t n, const Memory& memory, ResolventSum* sum)
      : n_(n), memory_(memory), sum_(sum), poles_(sum->poles()), stride_(poles_ + kProbes) {}

  int64_t stride() const { return stride_; }
  float* Probe(int64_t i) const { return memory_.generators + poles_ + i; }

  // Multiplies rows and columns [first, first + count) of Y by the reflectors that Apply() has already applied to the
  // square, and appends the products to the square.
  void Grow(int64_t first, int64_t count) {
    sum_->Grow(count, &block_);
    const blas::Product<float> by_transposed{false, true, 1, 0};
    if (first > 0) {
      blas::Gemm(by_transposed, count, first, poles_, block_.factors.data(), poles_, memory_.generators, stride_,
                 memory_.x + first * n_, n_);
    }
    for (int64_t i = 0; i < count; ++i) {
      const double* const from = block_.sums.data() + i * kWidth;
      float* const to = memory_.x + (first + i) * n_ + first;
      for (int64_t j = 0; j <= i; ++j) to[j] = static_cast<float>(from[j]);
    }
    std::array<float, ZolotarevSum::kMaxPoles> growth;
    for (size_t j = 0; j < static_cast<size_t>(poles_); ++j) growth[j] = static_cast<float>(block_.growth[j]);
    for (int64_t i = 0; i < first; ++i) {
      float* const row = memory_.generators + i * stride_;
      for (int64_t j = 0; j < poles_; ++j) row[j] = Flushed(row[j] * growth[static_cast<size_t>(j)]);
    }
    for (int64_t i = 0; i < count; ++i) {
      float* const row = memory_.generators + (first + i) * stride_;
      for (int64_t j = 0; j < poles_; ++j) {
        row[j] = Flushed(static_cast<float>(block_.generators[static_cast<size_t>(j * kWidth + i)]));
      }
    }
  }

  // Computes X <- H X H^T and Z <- H Z. The columns of Z are the generators and the probe vectors. H = I - U^T V is the
  // transpose of the product of the panel's reflectors, where V is panel.v and U is panel.y.
  void Apply(const ReflectorPanel<float>& panel) const {
    const int64_t k = panel.count;
    const int64_t c = panel.columns;
    const int64_t ld = memory_.ld;
    float* const x = memory_.x;
    float* const w = memory_.products;
    // H X H^T = X - U^T W - W^T U with W = V X - S U / 2 and S = V X V^T.
    std::array<float, kWidth * kWidth> s;
    blas::SymmLower(k, c, x, n_, panel.v, ld, w, n_);
    blas::Gemm({false, true, 1, 0}, k, k, c, w, n_, panel.v, ld, s.data(), k);
    blas::Gemm({false, false, -0.5f, 1}, k, c, k, s.data(), k, panel.y, ld, w, n_);
    blas::Syr2k(c, k, -1, panel.y, ld, w, n_, x, n_);
    std::array<float, kWidth * kMaxStride> products;
    blas::Gemm(k, stride_, c, panel.v, ld, memory_.generators, stride_, products.data(), stride_);
    blas::Gemm({true, false, -1, 1}, c, stride_, k, panel.y, ld, products.data(), stride_, memory_.generators, stride_);
  }

 private:
  // Returns 0 if the value is tiny, otherwise the value. Products of tiny values can be denormal numbers. Computing
  // such a product is slow, and adding it to a number near 1 does not change that number.
  static float Flushed(float value) { return std::fabs(value) < 1e-30f ? 0.0f : value; }

  int64_t n_;
  const Memory& memory_;
  ResolventSum* sum_;
  int64_t poles_;
  int64_t stride_;
  ResolventSum::Block block_;
};

// y <- (T + shift I) x
void MultiplyTridiagonal(const Tridiagonal& t, double shift, const double* x, double* y) {
  for (int64_t i = 0; i < t.n; ++i) {
    double sum = (t.d[i] + shift) * x[i];
    if (i > 0) sum += t.e[i - 1] * x[i - 1];
    if (i + 1 < t.n) sum += t.e[i] * x[i + 1];
    y[i] = sum;
  }
}

// Checks the result with the probe vectors: returns whether A v = Q T u and X v = Q Y u up to rounding, and whether
// root_error is at most kLargestRootError. Returns false if a value is not finite.
bool Fits(int64_t n, const ResolventResult& result, const RootWorkspace<float>& workspace) {
  float* const v = workspace.Vector(0, n);
  float* const expected = workspace.Vector(1, n);
  float* const product = workspace.Vector(2, n);
  const auto gather = [&](const float* from, float* to) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * result.stride];
  };
  gather(result.v, v);
  gather(result.av, expected);
  blas::Symv(false, n, workspace.Matrix(n), n, v, product);
  const double error_of_a = Distance(n, product, expected);
  gather(result.xv, expected);
  blas::Gemv(false, n, result.x, v, product);
  const double error_of_x = Distance(n, product, expected);
  const double tolerance = ProbeTolerance(n, MachineEpsilon(Dtype::kF32));
  return error_of_a <= tolerance * result.largest_of_a && error_of_x <= tolerance * result.largest_of_x &&
         result.root_error <= kLargestRootError;
}

}  // namespace

bool UsesResolvents(const RootSpec& spec, Rung rung, int64_t n) {
  return spec.method == RootMethod::kEigen && rung == Rung::kRequested && spec.exponent == -0.5 && spec.clamp &&
         !spec.pseudo_inverse && !spec.eigenvectors && n >= kMinResolventSize && n <= kMaxResolventSize;
}

ResolventResult RunResolvents(int64_t n, double epsilon, const RootWorkspace<float>& workspace, bool by_lapack) {
  ResolventResult result;
  Memory memory(n, workspace.Work(n));
  const float* const a = workspace.Matrix(n);
  result.solver_info = Reduce(n, a, by_lapack, &memory);
  if (result.solver_info != 0) {
    result.suitable = true;
    return result;
  }
  const Tridiagonal t{n, memory.d, memory.e};
  const EigenvalueBounds bounds = BoundEigenvalues(t);
  result.least = std::min(bounds.least, 0.0);
  const double shift = epsilon - result.least;
  if (!ResolventSum::IsSuitable(bounds, shift)) return result;
  result.suitable = true;
  result.largest_of_a = std::max(bounds.largest, -result.least);

  ResolventSum sum(t, bounds, shift, memory.inverses);
  result.largest_of_x = sum.largest();
  Window window(n, memory, &sum);
  FillSigns(n, memory.u);
  auto* const scratch = reinterpret_cast<double*>(memory.panel);
  const auto set_probe = [&](int64_t i, const double* values) {
    for (int64_t row = 0; row < n; ++row) window.Probe(i)[row * window.stride()] = static_cast<float>(values[row]);
  };
  set_probe(0, memory.u);
  MultiplyTridiagonal(t, 0, memory.u, memory.y);
  set_probe(1, memory.y);
  sum.Multiply(memory.u, scratch, memory.y);
  set_probe(2, memory.y);
  sum.Multiply(memory.y, scratch, memory.z);
  MultiplyTridiagonal(t, shift, memory.z, memory.y);
  result.root_error = Distance(n, memory.y, memory.u);

  for (int64_t first = 0; first < n - 1; first += PanelWidth(n)) {
    const int64_t count = std::min(PanelWidth(n), n - 1 - first);
    const ReflectorPanel<float> panel{first, count, first + count, memory.v + (first + 1) * memory.ld, memory.panel};
    PreparePanel(panel, memory.ld, memory.tau + first);
    window.Grow(first, count);
    window.Apply(panel);
  }
  window.Grow(n - 1, 1);  // the last column has no reflector
  Mirror(n, memory.x);
  result.x = memory.x;
  result.stride = window.stride();
  result.v = window.Probe(0);
  result.av = window.Probe(1);
  result.xv = window.Probe(2);
  return result;
}

RootOutcome ResolventRoot(const RootSpec& spec, Rung rung, int64_t n, int scale, const RootWorkspace<float>& workspace,
                          float** x, bool* suitable) {
  RootOutcome outcome;
  const ResolventResult result = SolveResolvents(spec, rung, n, std::ldexp(spec.epsilon, -scale), workspace);
  *suitable = result.suitable;
  if (!result.suitable) return outcome;
  outcome.solver_info = result.solver_info;
  if (result.solver_info != 0) {
    outcome.failure = RootFailure::kSolver;
    return outcome;
  }
  outcome.epsilon = spec.epsilon;
  outcome.shift = spec.epsilon - std::ldexp(result.least, scale);
  if (!Fits(n, result, workspace)) {
    outcome.failure = RootFailure::kWrongResult;
    return outcome;
  }
  *x = result.x;
  return outcome;
}

}  // namespace shampoo
