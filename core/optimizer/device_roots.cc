// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Inverse roots that a device has computed, or could not: those are computed by the host.
#include <algorithm>

#include "core/backend/cpu/factor_pair.h"
#include "core/base/caught.h"
#include "core/base/round_up.h"
#include "core/blas/scratch.h"
#include "core/optimizer/on_device.h"
#include "core/optimizer/optimizer.h"
#include "core/roots/ladder.h"

namespace shampoo {
namespace {

RootOutcome OutcomeOf(const cuda::RootStatus& status) {
  RootOutcome outcome;
  outcome.kind = status.kind;
  outcome.failure = status.failure;
  outcome.iterations = status.iterations;
  outcome.converged = status.converged;
  outcome.solver_info = status.solver_info;
  outcome.diagonal_input = status.diagonal_input != 0;
  return outcome;
}

int64_t SpanBytes(const StateSlot& slot, int64_t d) {
  return SpanElements(slot.form, d) * static_cast<int64_t>(SizeOf(slot.dtype));
}

// What a root is computed from: the factor matrix, or its snapshot.
StateSlot SourceOf(const Block& block, int k, RootTask task) {
  const auto at = static_cast<size_t>(k);
  return task == RootTask::kCompute ? block.factor[at] : block.snapshot[at];
}

// block: with the source of dim k as its factor matrix. memory: of that and of the inverse root, at their offsets in
// `block`.
template <typename Real>
RootOutcome RecoverPair(const RootSpec& spec, const Block& block, int k, double correction, const RootOutcome& first,
                        char* memory) {
  std::vector<Real> working(static_cast<size_t>(FactorPair<Real>::WorkingBytes(block, k)) / sizeof(Real));
  const FactorPair<Real> pair(block, k, memory, working.data());
  pair.LoadFactor();
  std::vector<double> elements(static_cast<size_t>(RootWorkspace<double>::Elements(spec.method, pair.d())));
  std::vector<int32_t> ints(static_cast<size_t>(RootWorkspace<double>::Ints(pair.d())));
  const double limit =
      std::min(LargestFinite(block.inverse[static_cast<size_t>(k)].dtype), LargestFinite(DtypeOf<Real>()));
  const bool is_square = block.factor[static_cast<size_t>(k)].form == SymmetricForm::kSquare;
  const SymmetricView<Real> factor{pair.d(), pair.factor(), correction, is_square ? pair.d() : pair.ld()};
  const SymmetricTarget<Real> inverse{pair.inverse(), pair.ld(), pair.full()};
  const RootOutcome outcome = RecoverRoot(spec, factor, first, {elements.data(), ints.data()}, limit, inverse);
  if (outcome.ok()) pair.StoreInverse();
  return outcome;
}

}  // namespace

// Of the blocks that were refreshed by the last step that was not captured.
Status Optimizer::EnterRootsOfDevice(int64_t ticket) {
  const OnDevice::Asked& asked = device_->asked;
  // An arena that a step has written is the host's again unless it is bound, and then not to be written where steps
  // only read it.
  const bool is_writable = state_out_ == asked.state_out && (state_in_ == asked.state_out || !device_->lags);
  bool refreshed = false;
  for (const Block& block : plan_->blocks) {
    const int64_t b = &block - plan_->blocks.data();
    if (!Refreshes(asked.tasks[static_cast<size_t>(b)]) || !Owns(block)) continue;
    const cuda::RootStatus* const statuses = device_->engine->roots() + roots_.FirstOf(b);
    if (statuses[0].ticket != ticket) continue;  // the block was skipped
    for (int k = 0; k < block.factor_count(); ++k) {
      RootOutcome& outcome = roots_.ReportsOf(b)[k].outcome;
      outcome = OutcomeOf(statuses[k]);
      if (outcome.ok() || !is_writable) continue;
      Status status = Caught([&] { return RecoverRootOfDevice(block, k, &outcome); });
      if (status.code() != Code::kNoMemory) SHAMPOO_RETURN_IF_ERROR(std::move(status));
    }
    roots_.Enter(*plan_, block, groups_[static_cast<size_t>(block.group)].settings);
    refreshed = true;
  }
  if (refreshed) roots_.EndRefresh(false);
  return {};
}

// By the recovery ladder, from the factor matrix or its snapshot, as it is kept.
Status Optimizer::RecoverRootOfDevice(const Block& block, int k, RootOutcome* outcome) {
  OnDevice& device = *device_;
  const auto at = static_cast<size_t>(k);
  const int64_t d = block.shape[k];
  const RootTask task = device.asked.tasks[static_cast<size_t>(&block - plan_->blocks.data())];
  const StateSlot factor = SourceOf(block, k, task);
  const StateSlot& inverse = block.inverse[at];
  const bool shared = factor.offset == inverse.offset;
  Block here = block;
  here.factor[at] = factor;
  here.factor[at].offset = 0;
  here.inverse[at].offset = shared ? 0 : RoundUp(SpanBytes(factor, d), kStateAlignment);
  std::vector<char> memory(static_cast<size_t>(here.inverse[at].offset + SpanBytes(inverse, d)));
  char* const arena = device.asked.state_out;
  SHAMPOO_RETURN_IF_ERROR(
      device.engine->Download(memory.data(), arena + factor.offset, SpanBytes(factor, d), device.stream));

  // What shares an array with the inverse root is to stay as it is.
  if (inverse.form == SymmetricForm::kUpper && !shared) {
    SHAMPOO_RETURN_IF_ERROR(device.engine->Download(memory.data() + here.inverse[at].offset, arena + inverse.offset,
                                                    SpanBytes(inverse, d), device.stream));
  }

  const auto g = static_cast<size_t>(block.group);
  const Settings& settings = groups_[g].settings;
  RootSpec spec = MakeRootSpec(settings, block.root, 1, d, block.root_dtype);
  spec.may_be_diagonal = outcome->kind == RootKind::kScalar || outcome->kind == RootKind::kDiagonal;
  spec.id = roots_.FirstOf(&block - plan_->blocks.data()) + k;
  // The step has left there which factor matrices its roots are of.
  const int64_t snapshot_step = device.snapshot_steps[static_cast<size_t>(&block - plan_->blocks.data())];
  const double correction =
      FactorCorrection(settings, task == RootTask::kCompute ? device.asked.steps[g] : -snapshot_step);
  SHAMPOO_RETURN_IF_ERROR(blas::CheckThreads());
  blas::Scratch scratch;
  SHAMPOO_RETURN_IF_ERROR(blas::Scratch::Create({}, &scratch));
  const blas::ScratchUse use(&scratch);
  RootOutcome recovered = block.computation == Dtype::kF64
                              ? RecoverPair<double>(spec, here, k, correction, *outcome, memory.data())
                              : RecoverPair<float>(spec, here, k, correction, *outcome, memory.data());
  if (recovered.ok()) {
    SHAMPOO_RETURN_IF_ERROR(device.engine->Upload(arena + inverse.offset, memory.data() + here.inverse[at].offset,
                                                  SpanBytes(inverse, d), device.stream));
  }
  *outcome = recovered;
  return {};
}

}  // namespace shampoo
