// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/device_roots.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/backend/cpu/factor_pair.h"
#include "core/base/round_up.h"
#include "core/blas/scratch.h"
#include "core/roots/ladder.h"
#include "core/rules/growth.h"
#include "core/rules/step_program.h"

namespace shampoo {
namespace {

int64_t SpanBytes(const StateSlot& slot, int64_t d) {
  return SpanElements(slot.form, d) * static_cast<int64_t>(SizeOf(slot.dtype));
}

// Returns the state that a root is computed from: the factor matrix or its snapshot.
StateSlot SourceOf(const Block& block, int k, RootTask task) {
  const auto at = static_cast<size_t>(k);
  return task == RootTask::kCompute ? block.factor[at] : block.snapshot[at];
}

// The arguments of the attempts to compute a root again on the device, before the host tries.
struct DeviceAttempts {
  const cuda::DeviceEngine* engine;
  cuda::RootRetry retry;
};

// Returns whether the device should try its other solvers after its solver for batches has failed with `failure`.
bool MayRetryOnDevice(const RootSpec& spec, RootFailure failure) {
  return (spec.method == RootMethod::kEigen || spec.method == RootMethod::kCans) &&
         (failure == RootFailure::kSolver || failure == RootFailure::kWrongResult ||
          failure == RootFailure::kNotConverged);
}

// Computes the root on the device with the solver for one matrix and, if that fails, by a Newton iteration. If either
// method succeeds, replaces *outcome. factor: the matrix before DividedByTrace(), because the device makes this
// division.
template <typename Real>
Status RetryOnDevice(DeviceAttempts* attempts, const SymmetricView<Real>& factor, const SymmetricTarget<Real>& inverse,
                     RootOutcome* outcome) {
  const int64_t n = factor.n;
  std::vector<Real> dense(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      dense[static_cast<size_t>(i * n + j)] = dense[static_cast<size_t>(j * n + i)] = factor.Row(i)[j];
    }
  }
  cuda::RootRetry& retry = attempts->retry;
  retry.divisor = factor.divisor;
  retry.matrix = dense.data();
  int used = 0;
  for (const auto& [how, rung] : {std::pair{cuda::RetryMethod::kSingle, Rung::kDeviceEigen},
                                  std::pair{cuda::RetryMethod::kNewton, Rung::kDeviceNewton}}) {
    retry.how = how;
    cuda::RootStatus status;
    SHAMPOO_RETURN_IF_ERROR(attempts->engine->RetryRoot(retry, &status));
    ++used;
    if (status.failure != RootFailure::kNone) continue;
    for (int64_t i = 0; i < n; ++i) {
      const auto row = dense.begin() + i * n;
      std::copy(row + (inverse.full ? 0 : i), row + n, inverse.data + i * inverse.ld + (inverse.full ? 0 : i));
    }
    RootOutcome found = ReportOfDevice(status).outcome;
    found.rung = rung;
    found.first_failure = outcome->failure;
    found.rungs_used = used;
    found.diagonal_input = outcome->diagonal_input;
    *outcome = found;
    return {};
  }
  return {};
}

// Measures the residuals of a root that was computed again. Steps on the CPU measure their roots in the same way
// (track_root_residuals).
template <typename Real>
RootResiduals ResidualsOf(const RootSpec& spec, const RootOutcome& outcome, const SymmetricView<Real>& factor,
                          const SymmetricTarget<Real>& inverse) {
  std::vector<double> elements(static_cast<size_t>(RootWorkspace<double>::Elements(RootMethod::kEigen, factor.n)));
  std::vector<int32_t> ints(static_cast<size_t>(RootWorkspace<double>::Ints(factor.n)));
  const SymmetricView<Real> root{factor.n, inverse.data, 1, inverse.ld, true};
  return MeasureRoot(spec, outcome, factor, root, RootWorkspace<double>{elements.data(), ints.data()});
}

// Computes the root of dim k again and stores it in `memory`. block: a copy of the block. In this copy, factor[k]
// describes the matrix from which the root is computed: the factor matrix or its snapshot. memory: holds this matrix
// and receives the root, at their offsets in `block`. correction: the matrix is divided by this number
// (FactorCorrection).
template <typename Real>
Status RecoverPair(const RootSpec& spec, const Block& block, int k, double correction, DeviceAttempts* attempts,
                   char* memory, RootReport* report) {
  RootOutcome* const outcome = &report->outcome;
  std::vector<Real> working(static_cast<size_t>(FactorPair<Real>::WorkingBytes(block, k)) / sizeof(Real));
  const FactorPair<Real> pair(block, k, memory, working.data());
  pair.LoadFactor();
  const double limit = RootLimit(block, static_cast<size_t>(k));
  const bool is_square = block.factor[static_cast<size_t>(k)].form == SymmetricForm::kSquare;
  const SymmetricView<Real> unscaled{pair.d(), pair.factor(), correction, is_square ? pair.d() : pair.ld()};
  const SymmetricView<Real> factor = DividedByTrace(spec, unscaled);
  const SymmetricTarget<Real> inverse{pair.inverse(), pair.ld(), pair.full()};
  attempts->retry.limit = limit;
  if (MayRetryOnDevice(spec, outcome->failure)) {
    SHAMPOO_RETURN_IF_ERROR(RetryOnDevice(attempts, unscaled, inverse, outcome));
  }
  if (!outcome->ok()) {
    std::vector<double> elements(static_cast<size_t>(RootWorkspace<double>::Elements(spec.method, pair.d())));
    std::vector<int32_t> ints(static_cast<size_t>(RootWorkspace<double>::Ints(pair.d())));
    *outcome = RecoverRoot(spec, factor, *outcome, {elements.data(), ints.data()}, limit, inverse);
  }
  if (!outcome->ok()) return {};
  if (attempts->retry.settings->track_root_residuals) report->residuals = ResidualsOf(spec, *outcome, factor, inverse);
  pair.StoreInverse();
  return {};
}

}  // namespace

RootReport ReportOfDevice(const cuda::RootStatus& status) {
  RootReport report;
  RootOutcome& outcome = report.outcome;
  outcome.kind = status.kind;
  outcome.failure = status.failure;
  outcome.iterations = status.iterations;
  outcome.converged = status.converged;
  outcome.solver_info = status.solver_info;
  outcome.diagonal_input = status.diagonal_input != 0;
  outcome.epsilon = status.epsilon;
  outcome.shift = status.shift;
  report.residuals = {status.error, status.residual};
  return report;
}

Status RecoverDeviceRoot(const StepInputs& inputs, const cuda::DeviceStateMemory& memory_of_device,
                         const DeviceRootSource& source, RootReport* report) {
  const Block& block = *source.block;
  const int k = source.dim;
  const auto at = static_cast<size_t>(k);
  const int64_t d = block.shape[k];
  const StateSlot factor = SourceOf(block, k, source.task);
  const StateSlot& inverse = block.inverse[at];
  const bool shared = factor.offset == inverse.offset;
  Block here = block;
  here.factor[at] = factor;
  here.factor[at].offset = 0;
  here.inverse[at].offset = shared ? 0 : RoundUp(SpanBytes(factor, d), kStateAlignment);
  std::vector<char> memory(static_cast<size_t>(here.inverse[at].offset + SpanBytes(inverse, d)));
  char* const arena = source.arena;
  SHAMPOO_RETURN_IF_ERROR(memory_of_device.Download(memory.data(), arena + factor.offset, SpanBytes(factor, d)));

  // A root of form kUpper is a triangle in an array that also holds another state. Upload() writes both, so the other
  // state must be in `memory`, too.
  if (inverse.form == SymmetricForm::kUpper && !shared) {
    SHAMPOO_RETURN_IF_ERROR(memory_of_device.Download(memory.data() + here.inverse[at].offset, arena + inverse.offset,
                                                      SpanBytes(inverse, d)));
  }

  const Settings& settings = inputs.state.hyper_parameters().settings(static_cast<size_t>(block.group));
  RootSpec spec = MakeRootSpec(settings, block.root, 1, d, block.root_dtype);
  const RootKind kind = report->outcome.kind;
  spec.may_be_diagonal = kind == RootKind::kScalar || kind == RootKind::kDiagonal;
  spec.id = inputs.history.roots().FirstFactorOf(&block - inputs.plan.blocks.data()) + k;
  const double correction = FactorCorrection(settings, source.step);
  SHAMPOO_RETURN_IF_ERROR(blas::CheckThreads());
  blas::Scratch scratch;
  SHAMPOO_RETURN_IF_ERROR(blas::Scratch::Create({}, &scratch));
  const blas::ScratchUse use(&scratch);
  const cuda::DeviceSettings device_settings = cuda::DeviceSettingsOf(settings);
  DeviceAttempts attempts{&memory_of_device.engine(), {}};
  attempts.retry.stream = memory_of_device.stream();
  attempts.retry.settings = &device_settings;
  attempts.retry.n = d;
  attempts.retry.root = block.root;
  attempts.retry.computation = block.computation;
  attempts.retry.root_dtype = block.root_dtype;
  RootReport recovered = *report;
  SHAMPOO_RETURN_IF_ERROR(block.computation == Dtype::kF64
                              ? RecoverPair<double>(spec, here, k, correction, &attempts, memory.data(), &recovered)
                              : RecoverPair<float>(spec, here, k, correction, &attempts, memory.data(), &recovered));
  if (recovered.outcome.ok()) {
    SHAMPOO_RETURN_IF_ERROR(memory_of_device.Upload(arena + inverse.offset, memory.data() + here.inverse[at].offset,
                                                    SpanBytes(inverse, d)));
  }
  *report = recovered;
  return {};
}

}  // namespace shampoo
