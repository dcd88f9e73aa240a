// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The checks that run before a step writes anything. On the CPU, GradientChecker (core/step) makes the same checks.
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/backend/cuda/plugin/device_schedule.h"
#include "core/backend/cuda/plugin/kernel_common.h"
#include "core/backend/cuda/plugin/matrix_tile.h"
#include "core/rules/growth.h"

namespace shampoo::cuda {
namespace {

struct ScanBody {
  Tables tables;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = tables.scan_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    const Buffers& buffers = tables.buffers[block.buffers];
    if (tables.state->rejected != 0 || buffers.grad == nullptr) return;
    const int64_t begin = TileBegin(tile);
    const int64_t size = TileSize(block, tile);
    const auto largest = [&](const void* data, Dtype dtype) {
      const uint64_t pattern =
          cta.Largest(size, [&](int64_t i) { return PatternOf(data, dtype, PlaceOf(block, begin + i)); });
      return MagnitudeOf(pattern, dtype);
    };
    const DeviceParam& param = tables.params[block.param];
    const double of_gradient = largest(buffers.grad, param.grad_dtype);
    const bool decays = tables.groups[block.scalars].coupled_decay != 0;
    const double of_param = decays ? largest(buffers.param, param.param_dtype) : 0.0;
    cta.Once([&] {
      tables.scanned[2 * cta.index()] = of_gradient;
      tables.scanned[2 * cta.index() + 1] = of_param;
    });
  }
};

SHAMPOO_DEVICE inline bool TakesPart(const Tables& tables, const DeviceBlock& block) {
  return tables.buffers[block.buffers].grad != nullptr && tables.groups[block.group].active != 0 &&
         tables.state->rejected == 0;
}

// For each tile of the factor matrices that the step reads, computes the largest magnitude in the tile.
struct ScanFactorsBody {
  Tables tables;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceMatrixTile& tile = tables.matrix_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    if (!TakesPart(tables, block)) return;
    if (!ReadsFactors(ScheduleFor(tables.groups[block.scalars], block, tables.state_in).task)) return;
    const MatrixTile part(tile, block.shape[tile.dim]);
    const StateSlot& slot = block.factor[tile.dim];
    const char* const factor = tables.state_in + slot.offset;
    const uint64_t largest = part.LargestOfLower(cta, [&](int64_t row, int64_t column) {
      return PatternOf(factor, slot.dtype, KeptAt(slot.form, part.d, row, column));
    });
    cta.Once([&] { tables.scanned_factors[cta.index()] = largest; });
  }
};

// Computes the largest magnitudes in the states of a block, with all threads of a CTA.
struct LargestOfStates {
  const Cta* cta;
  const DeviceBlock* block;
  const char* state;

  SHAMPOO_DEVICE double LargestMoment() const {
    const StateSlot& slot = block->v;
    const char* const moment = state + slot.offset;
    const uint64_t largest = cta->Largest(block->elements, [&](int64_t i) { return PatternOf(moment, slot.dtype, i); });
    return MagnitudeOf(largest, slot.dtype);
  }
  SHAMPOO_DEVICE double LargestDiagonal(int k) const {
    const StateSlot& slot = block->factor[k];
    const char* const factor = state + slot.offset;
    const int64_t d = block->shape[k];
    const uint64_t largest =
        cta->Largest(d, [&](int64_t i) { return PatternOf(factor, slot.dtype, KeptAt(slot.form, d, i, i)); });
    return MagnitudeOf(largest, slot.dtype);
  }
};

// The check of one block by one CTA.
class BlockCheck {
 public:
  SHAMPOO_DEVICE BlockCheck(const Tables& tables, const Cta& cta, int64_t b, bool any_task, bool has_tasks)
      : tables_(tables),
        cta_(cta),
        index_(b),
        any_task_(any_task),
        has_tasks_(has_tasks),
        block_(tables.blocks[b]),
        group_(tables.groups[block_.scalars]),
        buffers_(tables.buffers[block_.buffers]),
        work_(tables.work[b]) {}

  SHAMPOO_DEVICE void Run() {
    const bool takes_part = TakesPart(tables_, block_);
    const RootSchedule schedule = takes_part ? ScheduleFor(group_, block_, tables_.state_in) : RootSchedule{};
    const RootTask prepared = PreparedTask(schedule.task);
    cta_.Once([&] {
      work_ = BlockWork{};
      work_.go = takes_part ? 1 : 0;
      work_.rule = schedule.rule;
      work_.task = prepared;
      work_.divisor = DivisorFor(schedule.task);
      work_.states_fit = 1;
    });
    if (!takes_part) return;
    const RootTask task = schedule.task;
    const bool is_prepared = (prepared == RootTask::kAdoptDeviceRoots ? RootTask::kFromSnapshot : prepared) == task;
    const bool reads_factors = block_.owned != 0 && ReadsFactors(task);
    if (!is_prepared || (reads_factors && !any_task_)) {
      return Reject(Rejection::kSchedule, 0, 0, static_cast<double>(group_.t - 1), true);
    }
    if (reads_factors) CheckFactors();
    if (work_.rejection != Rejection::kNone) return;
    if (!GrowthBy(block_.owned != 0).CannotOverflow(Bound())) CheckExactly();
  }

 private:
  // Returns the task that the host has prepared for the roots of the block. scheduled: the task according to the state
  // on the device. The two tasks can differ only with root_async or with a method that works in eigenbases.
  SHAMPOO_DEVICE RootTask PreparedTask(RootTask scheduled) const {
    if (block_.owned == 0 || !(block_.snapshot_step.present() || block_.is_rotated())) return scheduled;
    return has_tasks_ ? tables_.tasks[index_] : RootTask::kNone;
  }

  // Returns the number by which a root solver divides the factor matrices before it computes their roots.
  SHAMPOO_DEVICE double DivisorFor(RootTask task) const {
    if (block_.is_rotated()) return 1;  // LoadFactors() divides the matrices instead
    if (task != RootTask::kFromSnapshot) return group_.factor_correction;
    return FactorCorrection(group_.settings, SnapshotStepOf(block_, tables_.state_in));
  }

  // Returns an upper bound of the magnitudes of all elements of G, which StepScalars defines. Returns NaN if the
  // gradient contains a NaN or, with coupled weight decay, if the parameter contains a NaN.
  SHAMPOO_DEVICE double Bound() const {
    const auto part = [&](int64_t which) {
      return BitsAs<double>(cta_.Largest(block_.tiles, [&](int64_t i) {
        return MagnitudeBits(tables_.scanned[2 * (block_.first_scan_tile + i) + which]);
      }));
    };
    const double of_gradient = part(0);
    return GradientBound(group_, of_gradient, part(1));
  }

  // Returns an object that checks whether the new states of the block will fit their dtypes. by_state: whether the
  // check reads the old states, which only the owner has.
  SHAMPOO_DEVICE Growth<DeviceBlock, LargestOfStates> GrowthBy(bool by_state) const {
    return {group_, block_, {&cta_, &block_, tables_.state_in}, by_state};
  }

  SHAMPOO_DEVICE double GradientAt(int64_t place) const {
    return ReadAs<double>(buffers_.grad, tables_.params[block_.param].grad_dtype, place);
  }
  SHAMPOO_DEVICE double ParamAt(int64_t place) const {
    if (group_.coupled_decay == 0) return 0;
    return ReadAs<double>(buffers_.param, tables_.params[block_.param].param_dtype, place);
  }
  SHAMPOO_DEVICE double ValueAt(int64_t i) const {
    const int64_t place = PlaceOf(block_, i);
    return group_.gradient_scale * GradientAt(place) + group_.coupled_decay * ParamAt(place);
  }

  SHAMPOO_DEVICE void Reject(Rejection rejection, int dim, int64_t element, double value, bool state_at_fault) const {
    cta_.Once([&] {
      work_.rejection = rejection;
      work_.dim = dim;
      work_.element = element;
      work_.value = value;
      work_.state_at_fault = state_at_fault ? 1 : 0;
      work_.go = 0;
    });
  }

  SHAMPOO_DEVICE void CheckExactly() const {
    const int64_t bad = cta_.First(block_.elements, [&](int64_t i) {
      const int64_t place = PlaceOf(block_, i);
      return !(IsFinite(ValueAt(i)) && IsFinite(GradientAt(place)) && IsFinite(ParamAt(place)));
    });
    if (bad < block_.elements) return RejectNonFinite(bad);

    const double largest =
        BitsAs<double>(cta_.Largest(block_.elements, [&](int64_t i) { return MagnitudeBits(ValueAt(i)); }));
    const int64_t at = cta_.First(block_.elements, [&](int64_t i) { return fabs(ValueAt(i)) == largest; });
    const int64_t element = PlaceOf(block_, at);
    const double value = ValueAt(at);
    const double largest_term = BitsAs<double>(cta_.Largest(block_.elements, [&](int64_t i) {
      const int64_t place = PlaceOf(block_, i);
      const uint64_t term = MagnitudeBits(group_.gradient_scale * GradientAt(place));
      const uint64_t decay = MagnitudeBits(group_.coupled_decay * ParamAt(place));
      return term > decay ? term : decay;
    }));
    if (!GradientFits(block_, largest, largest_term)) {
      return Reject(Rejection::kElementTooLarge, 0, element, value, false);
    }
    const double rounding = GradientRounding(group_, block_.computation, largest_term);
    for (int by_state = 0; by_state <= block_.owned; ++by_state) {
      const GrowthFault fault =
          GrowthBy(by_state != 0).FindFault(largest, rounding, [&](int k) { return LargestSliceSquare(k); });
      if (fault.state == GrowthFault::State::kNone) continue;
      if (by_state != 0 && tables_.gathers != 0) return SkipUpdate();
      const Rejection rejection = fault.state == GrowthFault::State::kMoment ? Rejection::kMomentTooLarge
                                  : fault.product_fits                       ? Rejection::kFactorTooLarge
                                                                             : Rejection::kProductTooLarge;
      return Reject(rejection, fault.dim, element, value, by_state != 0);
    }
  }

  // With shard_mode=gather, only the owner of the block knows that a state would overflow. The owner therefore reports
  // a skipped update, as on the CPU.
  SHAMPOO_DEVICE void SkipUpdate() const {
    cta_.Once([&] {
      work_.go = 0;
      work_.update_skipped = 1;
    });
  }

  SHAMPOO_DEVICE void RejectNonFinite(int64_t bad) const {
    const int64_t place = PlaceOf(block_, bad);
    const double gradient = GradientAt(place);
    const double param = ParamAt(place);
    if (!IsFinite(gradient)) return Reject(Rejection::kGradientNotFinite, 0, place, gradient, false);
    if (!IsFinite(param)) return Reject(Rejection::kParamNotFinite, 0, place, param, false);
    Reject(Rejection::kGradientNotFinite, 0, place, ValueAt(bad), false);
  }

  // Returns the largest element on the diagonal of C_k. C_k is G contracted with itself over all dims except k.
  SHAMPOO_DEVICE double LargestSliceSquare(int k) const {
    int64_t after = 1;
    for (int i = k + 1; i < block_.order; ++i) after *= block_.shape[i];
    const int64_t d = block_.shape[k];
    double largest = 0;
    for (int64_t slice = 0; slice < d; ++slice) {
      const double square = cta_.Sum(block_.elements / d, [&](int64_t i) {
        const double value = ValueAt((i / after * d + slice) * after + i % after);
        return value * value;
      });
      largest = square > largest ? square : largest;
    }
    return largest;
  }

  // Factor matrices that steps compute are finite, but the caller may have written NaN or infinity to the state.
  SHAMPOO_DEVICE void CheckFactors() const {
    const uint64_t* tiles = tables_.scanned_factors + block_.first_matrix_tile;
    for (int k = 0; k < block_.factors; ++k) {
      if (!block_.factor[k].present()) continue;
      const int64_t count = MatrixTileCount(block_.shape[k]);
      const uint64_t pattern = cta_.Largest(count, [&](int64_t i) { return tiles[i]; });
      tiles += count;
      const double largest = MagnitudeOf(pattern, block_.factor[k].dtype);
      if (!IsFinite(largest)) return Reject(Rejection::kFactorNotFinite, k, 0, largest, true);
    }
  }

  const Tables& tables_;
  const Cta& cta_;
  const int64_t index_;
  const bool any_task_;
  const bool has_tasks_;
  const DeviceBlock& block_;
  const DeviceGroup& group_;
  const Buffers& buffers_;
  BlockWork& work_;
};

struct CheckBlockBody {
  Tables tables;
  int32_t any_task;
  int32_t has_tasks;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    BlockCheck(tables, cta, cta.index(), any_task != 0, has_tasks != 0).Run();
  }
};

struct DecideBody {
  Tables tables;

  SHAMPOO_DEVICE OnNonFinite ChoiceFor(int64_t b) const {
    return tables.groups[tables.blocks[b].group].settings.on_nonfinite;
  }
  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    if (tables.state->rejected != 0) return;
    const int64_t unprepared = cta.First(tables.group_count, [&](int64_t g) {
      const DeviceGroup& group = tables.groups[g];
      return group.active != 0 && group.has_gradients != 0 && group.is_prepared == 0;
    });
    if (unprepared < tables.group_count) {
      const auto group = static_cast<int32_t>(unprepared);
      return cta.Once([&] {
        RejectGroup(tables.state, Rejection::kSchedule, group, static_cast<double>(tables.groups[group].t - 1));
      });
    }
    const BlockWork* const work = tables.work;
    // Search in the order of the plan, so that the report names the first block at fault.
    const int64_t rejecting = cta.First(tables.block_count, [&](int64_t b) {
      const Rejection rejection = work[b].rejection;
      if (rejection == Rejection::kNone) return false;
      return rejection == Rejection::kFactorNotFinite || rejection == Rejection::kSchedule ||
             ChoiceFor(b) == OnNonFinite::kError;
    });
    // With several replicas, only the owner of a block can find a fault in a state of the block. Unless the step is
    // rejected, the owner sends kSkippedMark instead of the update, and EndStep() counts the skipped update. So this
    // kernel does not count the fault.
    const auto is_bad = [&](int64_t b) {
      return work[b].rejection != Rejection::kNone && (tables.replica_world == 1 || work[b].state_at_fault == 0);
    };
    const int64_t first_bad = cta.First(tables.block_count, is_bad);
    const double bad = cta.Sum(tables.block_count, [&](int64_t b) { return is_bad(b) ? 1.0 : 0.0; });
    const int64_t skipping =
        cta.First(tables.block_count, [&](int64_t b) { return is_bad(b) && ChoiceFor(b) == OnNonFinite::kSkipStep; });
    cta.Once([&] {
      StepState& state = *tables.state;
      StepReport& report = state.report;
      if (rejecting < tables.block_count) {
        const BlockWork& by = work[rejecting];
        CountRejection(&state);
        report.rejection = by.rejection;
        report.group = tables.blocks[rejecting].group;
        report.block = rejecting;
        report.dim = by.dim;
        report.element = by.element;
        report.value = by.value;
        report.state_at_fault = by.state_at_fault;
        return;
      }
      if (bad > 0) {
        report.nonfinite_blocks += static_cast<int64_t>(bad);
        report.skipped_block = first_bad;
      }
      if (skipping < tables.block_count) {
        ++report.skipped_steps;
        state.go = 0;
      }
    });
  }
};

}  // namespace

cudaError_t ScanGradients(cudaStream_t stream, const Tables& tables) {
  return Launch(stream, tables.scan_tile_count, ScanBody{tables});
}

cudaError_t CheckBlocks(cudaStream_t stream, const Tables& tables, bool any_task, bool has_tasks) {
  cudaError_t error = any_task ? Launch(stream, tables.matrix_tile_count, ScanFactorsBody{tables}) : cudaSuccess;
  if (error != cudaSuccess) return error;
  error = Launch(stream, tables.block_count, CheckBlockBody{tables, any_task ? 1 : 0, has_tasks ? 1 : 0});
  return error != cudaSuccess ? error : Launch(stream, 1, DecideBody{tables});
}

}  // namespace shampoo::cuda
