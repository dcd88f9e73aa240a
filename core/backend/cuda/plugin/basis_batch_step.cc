// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A batch uses four buffers of tensors. The table shows their contents after each operation of a step with
// basis_order=after. An operation uses the buffer marked (between) for its intermediate results. Only KL-SOAP (method
// soap with factor_correction=kl) and KL-Shampoo whiten the gradient (UpdateKlFactors). With other methods, the
// operation `factors` leaves `third` unchanged. The operation soap_post orthogonalizes the direction if the key of the
// same name is set.
//
//             first                   second                  third                   fourth
//   rotate    gradient                (between)               rotated gradient
//   filter    gradient                                        rotated gradient        direction in the eigenbases
//   factors   gradient                (between)               whitened gradient       direction in the eigenbases
//   back      gradient                direction               (between)               direction in the eigenbases
//   soap_post gradient                direction               overwritten             direction in the eigenbases
//   refresh   (between)               direction               state                   rotated state
//
// With basis_order=before, the refresh comes before the rotation. The gradient then stays in `first` during the
// refresh, and `second` contains intermediate results. If this order is used with grafting, the filtered gradient
// replaces the rotated gradient in `third`, and is also rotated back to `first`, where it replaces the gradient.
//
// For tensors without factor matrices, Filter() reads the gradient in `first` and writes the direction to `second`.
#include "core/backend/cuda/plugin/basis_batch_step.h"

#include <algorithm>

#include "core/backend/cuda/plugin/cuda_call.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/rules/basis.h"

namespace shampoo::cuda {
namespace {

constexpr TaskSelection kOnlyInitialize{.computes = false, .initializes = true};

// Returns the run (BasisRun) of all blocks of a shape group.
BasisRun WholeGroup(const ShapeGroup& group, int dim) {
  return {static_cast<int64_t>(group.first), static_cast<int64_t>(group.count), dim};
}

}  // namespace

BasisBatchStep::BasisBatchStep(const PlanView& plan, const DeviceLayout& layout, char* workspace,
                               const ShapeGroupStreams& streams, const Orthogonalizer& orthogonalizer,
                               RootSolver* solver, bool tf32)
    : plan_(plan),
      layout_(layout),
      workspace_(workspace),
      streams_(streams),
      orthogonalizer_(orthogonalizer),
      solver_(solver, workspace + layout.root_workspace),
      tf32_(tf32) {}

auto BasisBatchStep::WorkOf(const Call* call, cudaStream_t stream, const Tables& tables, const BatchTables& work,
                            const BlockBatch& batch) const -> Work {
  const DeviceLayout::BasisLayout& at = layout_.basis;
  BasisTables basis{};
  basis.work = reinterpret_cast<BasisWork*>(workspace_ + at.work);
  basis.members = reinterpret_cast<BasisMember*>(workspace_ + at.members);
  basis.sums = reinterpret_cast<double*>(workspace_ + at.sums);
  basis.orders = reinterpret_cast<int32_t*>(workspace_ + at.orders);
  basis.third = workspace_ + at.third;
  basis.fourth = workspace_ + at.fourth;
  basis.moved = workspace_ + at.moved;
  basis.bases = workspace_ + at.bases;
  basis.rotations = workspace_ + at.rotations;
  basis.products = workspace_ + at.products;
  basis.rotated = workspace_ + at.rotated;
  const auto group = static_cast<size_t>(batch.items[0].block->group);
  return {call,
          stream,
          {tables, work, basis, batch.computation},
          batch,
          call != nullptr ? call->args.groups[group] : plan_.groups[group]};
}

RootTask BasisBatchStep::TaskOf(const Work& work, const BatchItem& item) const {
  // In Preload(), work.call is nullptr, and all blocks have the task kInitialize.
  return work.call == nullptr ? RootTask::kInitialize : work.call->args.tasks[item.block - plan_.blocks];
}

bool BasisBatchStep::HasTask(const Work& work, RootTask task) const {
  return std::any_of(work.batch.items.begin(), work.batch.items.end(),
                     [&](const BatchItem& item) { return TaskOf(work, item) == task; });
}

// Returns whether the step updates the factor matrices of at least one block. Returns true if the step is being
// captured into a graph, because each replay of the graph is a later step, which may update factor matrices.
bool BasisBatchStep::UpdatesAnyFactors(const Work& work) const {
  if (work.call == nullptr || work.call->args.captured != 0 || work.settings.factor_update_frequency == 1) return true;
  return std::any_of(work.batch.items.begin(), work.batch.items.end(), [&](const BatchItem& item) {
    const int64_t gradients = work.call->args.block_counters[item.block - plan_.blocks];
    return shampoo::UpdatesFactors(work.settings, std::max<int64_t>(1, UpdatesOf(work.settings, gradients + 1)));
  });
}

// Returns whether the step orthogonalizes the direction of at least one block (soap_post). With grafting, a step before
// start_preconditioning_step uses the direction of the grafting method, which is not orthogonalized. If the step is
// being captured, returns whether a replay may orthogonalize a direction.
bool BasisBatchStep::OrthogonalizesAny(const Work& work) const {
  if (work.batch.gram_bytes == 0) return false;
  if (work.call->args.captured != 0 || work.settings.grafting == Grafting::kNone) return true;
  return std::any_of(work.batch.items.begin(), work.batch.items.end(), [&](const BatchItem& item) {
    const int64_t gradients = work.call->args.block_counters[item.block - plan_.blocks];
    return item.block->has_orthogonal_direction() &&
           UpdatesOf(work.settings, gradients + 1) >= work.settings.start_preconditioning_step;
  });
}

// Divides each shape group into runs of consecutive blocks with the same task. For each run whose task is selected,
// calls do_run(shape group, index of the run's first block in BlockBatch::items, number of blocks).
template <typename Do>
Status BasisBatchStep::ForEachRun(const Work& work, TaskSelection selection, const Do& do_run) const {
  for (const ShapeGroup& group : work.batch.shape_groups) {
    for (size_t i = group.first; i < group.first + group.count;) {
      const RootTask task = TaskOf(work, work.batch.items[i]);
      size_t end = i + 1;
      while (end < group.first + group.count && TaskOf(work, work.batch.items[end]) == task) ++end;
      if (selection.Takes(task)) {
        SHAMPOO_RETURN_IF_ERROR(do_run(group, static_cast<int64_t>(i), static_cast<int64_t>(end - i)));
      }
      i = end;
    }
  }
  return {};
}

// For each run that ForEachRun() selects, calls do_factor(BasisSolver::Factors) for each dim that has factor matrices.
template <typename Do>
Status BasisBatchStep::ForEachFactor(const Work& work, TaskSelection selection, const Do& do_factor) const {
  return ForEachRun(work, selection, [&](const ShapeGroup& group, int64_t first, int64_t count) -> Status {
    const Block& block = *work.batch.items[static_cast<size_t>(first)].block;
    const double* const divisor = &work.args.tables.work[&block - plan_.blocks].divisor;
    for (int k = 0; k < block.factor_count(); ++k) {
      if (!block.has_factor(k)) continue;
      SHAMPOO_RETURN_IF_ERROR(
          do_factor(BasisSolver::Factors{work.args, work.batch, group, {first, count, k}, divisor}));
    }
    return {};
  });
}

Status BasisBatchStep::Step(const Call& call, const Tables& tables, const BatchTables& batch_tables,
                            const BlockBatch& batch) const {
  const auto stream = static_cast<cudaStream_t>(call.args.stream);
  const Work work = WorkOf(&call, stream, tables, batch_tables, batch);
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(LoadGradients(stream, tables, batch_tables, batch.computation));
  SHAMPOO_CUDA_TRY(BeginBases(stream, work.args));
  if (work.is_kl() && StartsFromGradient(work.settings)) SHAMPOO_CUDA_TRY(StartEigenvalues(stream, work.args));
  SHAMPOO_CUDA_TRY(LoadBases(stream, work.args, work.is_kl()));
  SHAMPOO_RETURN_IF_ERROR(work.settings.basis_order == BasisOrder::kBefore ? StepBefore(work) : StepAfter(work));
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kElementwise));
  SHAMPOO_CUDA_TRY(CheckDirections(stream, tables, batch_tables, batch.computation));
  SHAMPOO_CUDA_TRY(ApplyDirections(stream, tables, batch_tables, batch.computation));
  return {};
}

Status BasisBatchStep::Preload(const Tables& tables, const BatchTables& batch_tables, const BlockBatch& batch) const {
  const Work work = WorkOf(nullptr, streams_.first().stream, tables, batch_tables, batch);
  const BasisTables& basis = work.args.basis;
  SHAMPOO_RETURN_IF_ERROR(InitializeBases(work));
  SHAMPOO_RETURN_IF_ERROR(Rotate(work));
  SHAMPOO_RETURN_IF_ERROR(UpdateFactors(work));
  SHAMPOO_RETURN_IF_ERROR(RotateBack(work, basis.fourth, batch_tables.second, basis.third));
  if (batch.gram_bytes > 0) {
    SHAMPOO_RETURN_IF_ERROR(orthogonalizer_.Preload({tables, batch_tables, batch, batch_tables.second, basis.third}));
  }
  SHAMPOO_RETURN_IF_ERROR(Refresh(work, kOnlyInitialize, batch_tables.first));
  // Load the kernels for the products of orthogonal iteration, and the kernels of the eigensolver for one matrix.
  return ForEachFactor(work, kOnlyInitialize, [&](const BasisSolver::Factors& factors) -> Status {
    SHAMPOO_RETURN_IF_ERROR(
        BasisSolver::Multiply(streams_.first(), factors, false, basis.rotations, basis.bases, basis.products));
    return solver_.PreloadSingle(streams_.first(), factors);
  });
}

// Makes a step with basis_order=after: computes the direction in the current bases, and then updates the factor
// matrices and the eigenbases.
Status BasisBatchStep::StepAfter(const Work& work) const {
  const BatchTables& tensors = work.args.batch;
  const bool has_first = HasTask(work, RootTask::kInitialize);
  if (has_first) SHAMPOO_RETURN_IF_ERROR(InitializeBases(work));
  // Filter() suffices if each block either has no factor matrices or is only initialized by this gradient. In the
  // second case, the direction of the block is 0.
  const bool only_initializes =
      SkipsFirst(work.settings) &&
      std::all_of(work.batch.items.begin(), work.batch.items.end(), [&](const BatchItem& item) {
        return !item.block->is_rotated() || TaskOf(work, item) == RootTask::kInitialize;
      });
  if (only_initializes) return Filter(work);
  SHAMPOO_RETURN_IF_ERROR(Rotate(work));
  SHAMPOO_RETURN_IF_ERROR(Filter(work));
  SHAMPOO_RETURN_IF_ERROR(UpdateFactors(work));
  SHAMPOO_RETURN_IF_ERROR(CompleteDirection(work));
  // The first gradient of a block initializes the block. Unless SkipsFirst() is true, this gradient is then also used
  // for the first update of the block, in which a refresh may be due.
  const TaskSelection refreshed{.computes = true, .initializes = IsBasisDue(work.settings, 1)};
  if (HasTask(work, RootTask::kCompute) || (refreshed.initializes && has_first)) {
    SHAMPOO_RETURN_IF_ERROR(Refresh(work, refreshed, tensors.first));
  }
  return {};
}

// Makes a step with basis_order=before: updates the factor matrices and the eigenbases, and then computes the direction
// in the new bases.
Status BasisBatchStep::StepBefore(const Work& work) const {
  const BasisTables& basis = work.args.basis;
  const BatchTables& tensors = work.args.batch;
  if (work.is_kl()) SHAMPOO_RETURN_IF_ERROR(Rotate(work));
  SHAMPOO_RETURN_IF_ERROR(UpdateFactors(work));
  if (HasTask(work, RootTask::kCompute) || HasTask(work, RootTask::kInitialize)) {
    SHAMPOO_RETURN_IF_ERROR(Refresh(work, {.computes = true, .initializes = true}, tensors.second));
  }
  SHAMPOO_RETURN_IF_ERROR(Rotate(work));
  const bool grafts = work.settings.grafting != Grafting::kNone;
  if (grafts) SHAMPOO_CUDA_TRY(UpdateGrafting(work.stream, work.args));
  SHAMPOO_RETURN_IF_ERROR(Filter(work));
  if (grafts) {
    SHAMPOO_RETURN_IF_ERROR(RotateBack(work, basis.third, tensors.first, tensors.second));
    SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kElementwise));
    SHAMPOO_CUDA_TRY(DivideByGrafting(work.stream, work.args));
  }
  return CompleteDirection(work);
}

// With basis_order=after, computes the first factor matrices and bases of blocks from their first gradients.
Status BasisBatchStep::InitializeBases(const Work& work) const {
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kFactorUpdate));
  SHAMPOO_RETURN_IF_ERROR(MultiplyGradients(work));
  SHAMPOO_CUDA_TRY(UpdateBasisFactors(work.stream, work.args, true));
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kRoots));
  SHAMPOO_CUDA_TRY(LoadFactors(work.stream, work.args, kOnlyInitialize, work.args.batch.matrices));
  DeviceSettings settings = work.settings;
  settings.basis_tolerance = 0;  // there is no previous basis
  SHAMPOO_RETURN_IF_ERROR(ForEachFactor(work, kOnlyInitialize, [&](const BasisSolver::Factors& factors) {
    return solver_.Compute(streams_.first(), factors, settings, BasisMethod::kEigen);
  }));
  SHAMPOO_CUDA_TRY(StoreBases(work.stream, work.args, kOnlyInitialize));
  SHAMPOO_CUDA_TRY(MarkBases(work.stream, work.args, kOnlyInitialize, work.call != nullptr ? work.call->ticket : 0));
  return {};
}

Status BasisBatchStep::Rotate(const Work& work) const {
  const BasisTables& basis = work.args.basis;
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kPreconditioning));
  return streams_.ForEach(work.stream, work.batch, [&](const Handles& handles, const ShapeGroup& group) {
    return Contract(work, handles, group, WholeGroup(group, -1),
                    {.from = work.args.batch.first,
                     .to = basis.third,
                     .other = work.args.batch.second,
                     .matrices = basis.bases,
                     .may_use_tf32 = true});
  });
}

Status BasisBatchStep::RotateBack(const Work& work, void* from, void* to, void* other) const {
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kPreconditioning));
  return streams_.ForEach(work.stream, work.batch, [&](const Handles& handles, const ShapeGroup& group) {
    return Contract(work, handles, group, WholeGroup(group, -1),
                    {.from = from,
                     .to = to,
                     .other = other,
                     .matrices = work.args.basis.bases,
                     .transposed = true,
                     .may_use_tf32 = true});
  });
}

// Rotates the direction back from the eigenbases. If soap_post is set, also orthogonalizes the direction.
Status BasisBatchStep::CompleteDirection(const Work& work) const {
  const BasisTables& basis = work.args.basis;
  const BatchTables& tensors = work.args.batch;
  SHAMPOO_RETURN_IF_ERROR(RotateBack(work, basis.fourth, tensors.second, basis.third));
  if (!OrthogonalizesAny(work)) return {};
  return orthogonalizer_.Run(work.stream, {work.args.tables, tensors, work.batch, tensors.second, basis.third},
                             [](int) { return true; });
}

Status BasisBatchStep::Filter(const Work& work) const {
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kElementwise));
  if (RelativeEpsilon(work.settings, work.batch.computation) > 0) {
    SHAMPOO_CUDA_TRY(AddRelativeEpsilon(work.stream, work.args));
  }
  SHAMPOO_CUDA_TRY(FilterInBases(work.stream, work.args));
  return {};
}

// Contracts the tensors of a run with the matrices of their dims, starting with the last dim. Does nothing if there is
// no dim to contract.
Status BasisBatchStep::Contract(const Work& work, const Handles& handles, const ShapeGroup& group, const BasisRun& run,
                                const Chain& chain) const {
  const BatchItem& item = work.batch.items[static_cast<size_t>(run.first)];
  const Block& block = *item.block;
  const auto element = static_cast<int64_t>(SizeOf(work.batch.computation));
  const auto contracts = [&](int k) { return block.has_factor(k) && k != chain.without; };
  int left = 0;
  for (int k = 0; k < block.factor_count(); ++k) left += contracts(k) ? 1 : 0;
  const auto tensors_in = [&](void* buffer) -> EqualArrays {
    return {static_cast<char*>(buffer) + item.at * element, group.stride};
  };
  EqualArrays from = tensors_in(chain.from);
  void* const moved = block.order() > 2 ? tensors_in(work.args.basis.moved).data : nullptr;
  for (int k = block.factor_count() - 1; k >= 0; --k) {
    if (!contracts(k)) continue;
    --left;
    const EqualArrays to = tensors_in(left % 2 == 0 ? chain.to : chain.other);
    const auto at = static_cast<size_t>(k);
    const EqualArrays matrices{static_cast<char*>(chain.matrices) + item.matrix_at[at] * element,
                               group.matrix_stride[at]};
    SHAMPOO_RETURN_IF_ERROR(ContractDim(handles, {block, k, work.batch.computation, run.count},
                                        {.transposed = chain.transposed, .tf32 = tf32_ && chain.may_use_tf32}, from,
                                        matrices, to, moved));
    from = to;
  }
  return {};
}

// For each dim k, contracts the gradients with themselves over all dims except k, and writes the results, C_k, to the
// batch's matrices.
Status BasisBatchStep::MultiplyGradients(const Work& work) const {
  return streams_.ForEach(work.stream, work.batch, [&](const Handles& handles, const ShapeGroup& group) -> Status {
    const BatchItem& item = work.batch.items[group.first];
    const Block& block = *item.block;
    const auto element = static_cast<int64_t>(SizeOf(work.batch.computation));
    const auto in = [&](void* buffer) { return static_cast<char*>(buffer) + item.at * element; };
    for (int k = 0; k < block.factor_count(); ++k) {
      if (!block.has_factor(k)) continue;
      const BasisSolver::Factors factors{work.args, work.batch, group, WholeGroup(group, k), nullptr};
      SHAMPOO_RETURN_IF_ERROR(
          MultiplyDim(handles, {block, k, work.batch.computation, static_cast<int64_t>(group.count)},
                      {in(work.args.batch.first), group.stride}, BasisSolver::In(factors, work.args.batch.matrices),
                      block.order() > 2 ? in(work.args.basis.moved) : nullptr));
    }
    return {};
  });
}

Status BasisBatchStep::UpdateFactors(const Work& work) const {
  if (!UpdatesAnyFactors(work)) return {};
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kFactorUpdate));
  SHAMPOO_RETURN_IF_ERROR(work.is_kl() ? UpdateKlFactors(work) : MultiplyGradients(work));
  SHAMPOO_CUDA_TRY(UpdateBasisFactors(work.stream, work.args, false));
  if (work.is_kl() && work.settings.kl_eigenvalues == KlEigenvalues::kEma) {
    SHAMPOO_CUDA_TRY(StoreEigenvalues(work.stream, work.args));
  }
  return {};
}

// With kl_eigenvalues=ema, computes the next eigenvalues. For each dim k, whitens the gradients along all dims except
// k, and writes C_k of the whitened gradients to the batch's matrices (see MultiplyGradients). To whiten a gradient is
// to contract it with the matrices that LoadBases() writes to `rotations`. These matrices and the next eigenvalues are
// computed from the bases and eigenvalues before this update.
Status BasisBatchStep::UpdateKlFactors(const Work& work) const {
  const BasisTables& basis = work.args.basis;
  const bool averages = work.settings.kl_eigenvalues == KlEigenvalues::kEma;
  return streams_.ForEach(work.stream, work.batch, [&](const Handles& handles, const ShapeGroup& group) -> Status {
    const BatchItem& item = work.batch.items[group.first];
    const Block& block = *item.block;
    const auto element = static_cast<int64_t>(SizeOf(work.batch.computation));
    const auto in = [&](void* buffer) { return static_cast<char*>(buffer) + item.at * element; };
    for (int k = 0; averages && k < block.factor_count(); ++k) {
      if (!block.has_factor(k)) continue;
      SHAMPOO_CUDA_TRY(NextEigenvalues(handles.stream, work.args, WholeGroup(group, k), block.shape[k]));
    }
    for (int k = 0; k < block.factor_count(); ++k) {
      if (!block.has_factor(k)) continue;
      const BasisRun run = WholeGroup(group, k);
      SHAMPOO_RETURN_IF_ERROR(Contract(work, handles, group, run,
                                       {.from = work.args.batch.first,
                                        .to = basis.third,
                                        .other = work.args.batch.second,
                                        .matrices = basis.rotations,
                                        .without = k}));
      // With only one factor matrix, the gradient is not whitened. The step has already checked this gradient.
      const bool is_whitened = block.present_factors() > 1;
      void* const tensors = is_whitened ? basis.third : work.args.batch.first;
      if (is_whitened) {
        SHAMPOO_CUDA_TRY(CheckWhitened(handles.stream, work.args, run, TileCount(block.elements), tensors));
      }
      const BasisSolver::Factors factors{work.args, work.batch, group, run, nullptr};
      SHAMPOO_RETURN_IF_ERROR(MultiplyDim(
          handles, {block, k, work.batch.computation, run.count}, {in(tensors), group.stride},
          BasisSolver::In(factors, work.args.batch.matrices), block.order() > 2 ? in(basis.moved) : nullptr));
    }
    return {};
  });
}

// Refreshes the bases of the selected blocks, and converts the states of these blocks to the new bases. spare: a buffer
// of tensors that may be overwritten.
Status BasisBatchStep::Refresh(const Work& work, TaskSelection selection, void* spare) const {
  const BasisTables& basis = work.args.basis;
  const BatchTables& tensors = work.args.batch;
  const Handles& handles = streams_.first();
  const DeviceSettings& settings = work.settings;
  SHAMPOO_RETURN_IF_ERROR(work.Enter(StepPhase::kRoots));
  SHAMPOO_CUDA_TRY(LoadFactors(work.stream, work.args, selection, tensors.matrices));
  const auto solve = [&](const BasisSolver::Factors& factors) -> Status {
    const BatchItem& item = work.batch.items[static_cast<size_t>(factors.run.first)];
    const bool is_first = settings.basis_order == BasisOrder::kBefore && TaskOf(work, item) == RootTask::kInitialize;
    const bool uses_eigen = is_first && settings.basis_init == BasisInit::kEigen;
    SHAMPOO_RETURN_IF_ERROR(
        solver_.Compute(handles, factors, settings, uses_eigen ? BasisMethod::kEigen : settings.basis_method));
    SHAMPOO_RETURN_IF_ERROR(
        BasisSolver::Multiply(handles, factors, true, basis.bases, tensors.matrices, basis.rotations));
    SHAMPOO_CUDA_TRY(FixRotations(work.stream, work.args, factors.run));
    return {};
  };
  SHAMPOO_RETURN_IF_ERROR(ForEachFactor(work, selection, solve));
  SHAMPOO_RETURN_IF_ERROR(Transport(work, selection, RotatedState::kFilteredGradient, spare));
  const bool rotates = settings.basis_transport == BasisTransport::kRotate;
  const bool permutes = settings.basis_transport == BasisTransport::kPermute &&
                        settings.basis_method == BasisMethod::kQr && settings.basis_sort == BasisSort::kBefore;
  if (rotates || permutes) {
    const auto rotate = [&](const BasisSolver::Factors& factors) -> Status {
      SHAMPOO_CUDA_TRY(RotateMoments(work.stream, work.args, factors.run));
      return {};
    };
    SHAMPOO_RETURN_IF_ERROR(ForEachFactor(work, selection, rotate));
    SHAMPOO_RETURN_IF_ERROR(Transport(work, selection, RotatedState::kSecondMoment, spare));
  }
  SHAMPOO_CUDA_TRY(StoreBases(work.stream, work.args, selection));
  if (work.is_kl() && settings.kl_eigenvalues == KlEigenvalues::kBasis) {
    SHAMPOO_CUDA_TRY(LoadFactors(work.stream, work.args, selection, basis.rotations));
    const auto take = [&](const BasisSolver::Factors& factors) -> Status {
      SHAMPOO_RETURN_IF_ERROR(
          BasisSolver::Multiply(handles, factors, false, basis.rotations, basis.bases, basis.products));
      SHAMPOO_CUDA_TRY(TakeEigenvalues(work.stream, work.args, factors.run));
      return {};
    };
    SHAMPOO_RETURN_IF_ERROR(ForEachFactor(work, selection, take));
  }
  SHAMPOO_CUDA_TRY(MarkBases(work.stream, work.args, selection, work.call != nullptr ? work.call->ticket : 0));
  return {};
}

// Converts a state of the selected blocks to the new bases: contracts the state with the matrices in `rotations`.
Status BasisBatchStep::Transport(const Work& work, TaskSelection selection, RotatedState state, void* spare) const {
  const BasisTables& basis = work.args.basis;
  const bool exists = std::any_of(work.batch.items.begin(), work.batch.items.end(), [&](const BatchItem& item) {
    return (state == RotatedState::kFilteredGradient ? item.block->filtered_grad : item.block->second_moment).present();
  });
  if (!exists) return {};
  SHAMPOO_CUDA_TRY(LoadRotatedState(work.stream, work.args, selection, state, basis.third));
  SHAMPOO_RETURN_IF_ERROR(ForEachRun(work, selection, [&](const ShapeGroup& group, int64_t first, int64_t count) {
    return Contract(work, streams_.first(), group, {first, count, -1},
                    {.from = basis.third, .to = basis.fourth, .other = spare, .matrices = basis.rotations});
  }));
  SHAMPOO_CUDA_TRY(StoreRotatedState(work.stream, work.args, selection, state, basis.fourth));
  return {};
}

}  // namespace shampoo::cuda
