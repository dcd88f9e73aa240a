// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// What must be known before a step writes anything: as the check phase of the CPU (core/optimizer/check_phase.cc).
#include "core/backend/cuda/plugin/kernels.h"
#include "core/backend/cuda/plugin/parts.h"
#include "core/backend/cuda/plugin/schedule.h"

namespace shampoo::cuda {
namespace {

struct ScanBody {
  Tables tables;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const DeviceTile& tile = tables.scan_tiles[cta.index()];
    const DeviceBlock& block = tables.blocks[tile.block];
    const Buffers& buffers = tables.buffers[block.param];
    if (tables.state->refused != 0 || buffers.grad == nullptr) return;
    const int64_t begin = TileBegin(tile);
    const int64_t size = TileSize(block, tile);
    const auto largest = [&](const void* data, Dtype dtype) {
      const uint64_t pattern =
          cta.Largest(size, [&](int64_t i) { return PatternOf(data, dtype, PlaceOf(block, begin + i)); });
      return MagnitudeOf(pattern, dtype);
    };
    const DeviceParam& param = tables.params[block.param];
    const double of_gradient = largest(buffers.grad, param.grad_dtype);
    const bool decays = tables.groups[block.group].coupled_decay != 0;
    const double of_param = decays ? largest(buffers.param, param.param_dtype) : 0.0;
    cta.Once([&] {
      tables.scanned[2 * cta.index()] = of_gradient;
      tables.scanned[2 * cta.index() + 1] = of_param;
    });
  }
};

// A factor that grows by less than this part of the largest number in a step does not reach it in 2^40 steps.
constexpr double kNegligible = 1.0 / (int64_t{1} << 40);

// One CTA's judgement of one block.
class Judgement {
 public:
  SHAMPOO_DEVICE Judgement(const Tables& tables, const Cta& cta, int64_t b, bool has_tasks)
      : tables_(tables),
        cta_(cta),
        index_(b),
        has_tasks_(has_tasks),
        block_(tables.blocks[b]),
        group_(tables.groups[block_.group]),
        buffers_(tables.buffers[block_.param]),
        work_(tables.work[b]),
        computation_limit_(LargestFinite(block_.computation)),
        product_limit_(0.5 * computation_limit_) {}

  SHAMPOO_DEVICE void Run() {
    const bool takes_part = buffers_.grad != nullptr && group_.active != 0 && tables_.state->refused == 0;
    const RootSchedule schedule = takes_part ? ScheduleFor(group_, block_, tables_.state_in) : RootSchedule{};
    const RootTask prepared = PreparedTask(schedule.task);
    cta_.Once([&] {
      work_ = BlockWork{};
      work_.go = takes_part ? 1 : 0;
      work_.rule = schedule.rule;
      work_.task = prepared;
      work_.divisor = schedule.task == RootTask::kFromSnapshot ? SnapshotCorrection() : group_.factor_correction;
    });
    if (!takes_part) return;
    const RootTask task = schedule.task;
    if ((prepared == RootTask::kTakeOver ? RootTask::kFromSnapshot : prepared) != task) {
      return Refuse(Refusal::kSchedule, 0, 0, static_cast<double>(group_.t - 1), true);
    }
    const bool reads_factors = task == RootTask::kCompute || task == RootTask::kTakeSnapshot;
    if (block_.owned != 0 && reads_factors) CheckFactors();
    if (work_.refusal != Refusal::kNone) return;
    if (!IsHarmless(Bound())) CheckExactly();
  }

 private:
  // What the host has launched for the roots of the block, which it knows to be `own` without root_async.
  SHAMPOO_DEVICE RootTask PreparedTask(RootTask own) const {
    if (block_.owned == 0 || !block_.snapshot_step.present()) return own;
    return has_tasks_ ? tables_.tasks[index_] : RootTask::kNone;
  }

  // As FactorCorrection (core/step), of the step of the snapshot.
  SHAMPOO_DEVICE double SnapshotCorrection() const {
    if (group_.corrects_factors == 0) return 1;
    return 1 - pow(group_.factor_keep, static_cast<double>(SnapshotStepOf(block_, tables_.state_in)));
  }

  // |G| is nowhere above it; NaN if a gradient, or a parameter that decays into it, is.
  SHAMPOO_DEVICE double Bound() const {
    const auto part = [&](int64_t which) {
      return BitsAs<double>(cta_.Largest(block_.tiles, [&](int64_t i) {
        return MagnitudeBits(tables_.scanned[2 * (block_.first_scan_tile + i) + which]);
      }));
    };
    const double of_gradient = part(0);
    return fabs(group_.gradient_scale) * of_gradient + group_.coupled_decay * part(1);
  }

  SHAMPOO_DEVICE double ElementLimit() const {
    const bool narrow = block_.filtered.present() && LargestFinite(block_.filtered.dtype) < computation_limit_;
    return narrow ? LargestFinite(block_.filtered.dtype) : computation_limit_;
  }
  SHAMPOO_DEVICE double StateLimit(Dtype state) const {
    const double of_state = 0.99 * LargestFinite(state);
    return of_state < product_limit_ ? of_state : product_limit_;
  }

  // by_state: whether the state as it is counts; it does not where another rank has it.
  SHAMPOO_DEVICE bool MomentFits(double square, bool by_state) const {
    const StateSlot& slot = block_.grafting;
    if (!slot.present()) return true;
    const double limit = StateLimit(slot.dtype);
    const double added = group_.moment_add * square;
    if (!by_state) return added < limit;
    if (added < kNegligible * limit) return true;
    const char* const moment = tables_.state_in + slot.offset;
    const uint64_t largest = cta_.Largest(block_.elements, [&](int64_t i) { return PatternOf(moment, slot.dtype, i); });
    return group_.moment_keep * MagnitudeOf(largest, slot.dtype) + added < limit;
  }
  SHAMPOO_DEVICE bool FactorFits(int k, double slice_square, bool by_state) const {
    const StateSlot& slot = block_.factor[k];
    const double limit = StateLimit(slot.dtype);
    const double added = group_.factor_add * slice_square;
    if (!by_state) return added < limit;
    if (added < kNegligible * limit) return true;
    const char* const factor = tables_.state_in + slot.offset;
    const int64_t d = block_.dims[k];
    const uint64_t largest =
        cta_.Largest(d, [&](int64_t i) { return PatternOf(factor, slot.dtype, KeptAt(slot.form, d, i, i)); });
    return group_.factor_keep * MagnitudeOf(largest, slot.dtype) + added < limit;
  }

  SHAMPOO_DEVICE bool IsHarmless(double largest) const {
    const bool by_state = block_.owned != 0;
    if (!(largest < ElementLimit() && MomentFits(largest * largest, by_state))) return false;
    for (int k = 0; k < block_.factors; ++k) {
      const double in_slice = static_cast<double>(block_.elements / block_.dims[k]);
      const double slice_square = largest * largest * in_slice;
      if (!(slice_square < product_limit_ && FactorFits(k, slice_square, by_state))) return false;
    }
    return true;
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

  SHAMPOO_DEVICE void Refuse(Refusal refusal, int dim, int64_t element, double value, bool state_at_fault) const {
    cta_.Once([&] {
      work_.refusal = refusal;
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
    if (bad < block_.elements) return RefuseNonFinite(bad);

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
    if (!(largest < ElementLimit() && largest_term < ElementLimit())) {
      return Refuse(Refusal::kElementTooLarge, 0, element, value, false);
    }
    // Terms that cancel leave their rounding in the computation dtype, which may be more than their sum.
    const double epsilon = block_.computation == Dtype::kF64 ? 0x1p-52 : 0x1p-23;
    const double rounding = group_.coupled_decay != 0 ? 4 * epsilon * largest_term : 0;
    for (int by_state = 0; by_state <= block_.owned; ++by_state) {
      if (!MomentFits((largest + rounding) * (largest + rounding), by_state != 0)) {
        return Refuse(Refusal::kMomentTooLarge, 0, element, value, by_state != 0);
      }
      for (int k = 0; k < block_.factors; ++k) {
        const double slice_square = LargestSliceSquare(k, rounding);
        if (slice_square < product_limit_ && FactorFits(k, slice_square, by_state != 0)) continue;
        return Refuse(Refusal::kFactorTooLarge, k, element, value, by_state != 0);
      }
    }
  }

  SHAMPOO_DEVICE void RefuseNonFinite(int64_t bad) const {
    const int64_t place = PlaceOf(block_, bad);
    const double gradient = GradientAt(place);
    const double param = ParamAt(place);
    if (!IsFinite(gradient)) return Refuse(Refusal::kGradientNotFinite, 0, place, gradient, false);
    if (!IsFinite(param)) return Refuse(Refusal::kParamNotFinite, 0, place, param, false);
    Refuse(Refusal::kGradientNotFinite, 0, place, ValueAt(bad), false);
  }

  // The largest element on the diagonal of C_k. rounding: what it may add to an element of G.
  SHAMPOO_DEVICE double LargestSliceSquare(int k, double rounding) const {
    int64_t after = 1;
    for (int i = k + 1; i < block_.order; ++i) after *= block_.dims[i];
    const int64_t d = block_.dims[k];
    double largest = 0;
    for (int64_t slice = 0; slice < d; ++slice) {
      const double square = cta_.Sum(block_.elements / d, [&](int64_t i) {
        const double value = ValueAt((i / after * d + slice) * after + i % after);
        return value * value;
      });
      largest = square > largest ? square : largest;
    }
    if (rounding == 0) return largest;
    const double norm = sqrt(largest) + sqrt(static_cast<double>(block_.elements / d)) * rounding;
    return norm * norm;
  }

  // What the gradients made is finite; what the host wrote may not be.
  SHAMPOO_DEVICE void CheckFactors() const {
    for (int k = 0; k < block_.factors; ++k) {
      const StateSlot& slot = block_.factor[k];
      const char* const factor = tables_.state_in + slot.offset;
      const int64_t d = block_.dims[k];
      const uint64_t pattern = cta_.Largest(d * d, [&](int64_t i) {
        const int64_t row = i / d;
        const int64_t column = i % d;
        return column > row ? uint64_t{0} : PatternOf(factor, slot.dtype, KeptAt(slot.form, d, row, column));
      });
      const double largest = MagnitudeOf(pattern, slot.dtype);
      if (!IsFinite(largest)) return Refuse(Refusal::kFactorNotFinite, k, 0, largest, true);
    }
  }

  const Tables& tables_;
  const Cta& cta_;
  const int64_t index_;
  const bool has_tasks_;
  const DeviceBlock& block_;
  const GroupScalars& group_;
  const Buffers& buffers_;
  BlockWork& work_;
  double computation_limit_;
  double product_limit_;
};

struct JudgeBlockBody {
  Tables tables;
  int32_t has_tasks;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const { Judgement(tables, cta, cta.index(), has_tasks != 0).Run(); }
};

struct DecideBody {
  Tables tables;

  SHAMPOO_DEVICE OnNonFinite ChoiceFor(int64_t b) const { return tables.groups[tables.blocks[b].group].on_nonfinite; }
  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    if (tables.state->refused != 0) return;
    const BlockWork* const work = tables.work;
    // In the order of the plan, so that the first offence is the one that is told.
    const int64_t refusing = cta.First(tables.block_count, [&](int64_t b) {
      const Refusal refusal = work[b].refusal;
      if (refusal == Refusal::kNone) return false;
      return refusal == Refusal::kFactorNotFinite || refusal == Refusal::kSchedule ||
             ChoiceFor(b) == OnNonFinite::kError;
    });
    // What the owner of a block finds alone, in its state, it tells the other ranks in the exchange.
    const auto is_bad = [&](int64_t b) {
      return work[b].refusal != Refusal::kNone && (tables.replica_world == 1 || work[b].state_at_fault == 0);
    };
    const int64_t first_bad = cta.First(tables.block_count, is_bad);
    const double bad = cta.Sum(tables.block_count, [&](int64_t b) { return is_bad(b) ? 1.0 : 0.0; });
    const int64_t skipping =
        cta.First(tables.block_count, [&](int64_t b) { return is_bad(b) && ChoiceFor(b) == OnNonFinite::kSkipStep; });
    cta.Once([&] {
      StepState& state = *tables.state;
      StepReport& report = state.report;
      if (refusing < tables.block_count) {
        const BlockWork& by = work[refusing];
        CountRefusal(&state);
        report.refusal = by.refusal;
        report.group = tables.blocks[refusing].group;
        report.block = refusing;
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

cudaError_t JudgeBlocks(cudaStream_t stream, const Tables& tables, bool has_tasks) {
  const cudaError_t error = Launch(stream, tables.block_count, JudgeBlockBody{tables, has_tasks ? 1 : 0});
  return error != cudaSuccess ? error : Launch(stream, 1, DecideBody{tables});
}

}  // namespace shampoo::cuda
