// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/block_tile.h"
#include "core/backend/cuda/plugin/device_kernels.h"
#include "core/rules/averages.h"
#include "core/rules/norms.h"

namespace shampoo::cuda {
namespace {

template <typename Real, typename Rounding>
struct FilterBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (tables.state->go == 0 || part.work.go == 0 || part.work.states_fit == 0) return;
    const DeviceGroup& group = part.group;
    const StateSlot& e = part.block.filtered_grad;
    const StateSlot& v = part.block.v;
    const bool filtered = e.present() && group.filter_decay != 0;
    const bool has_moment = v.present();
    const FilterScalars<Real> scalars = MakeFilterScalars<Real>(group);
    const DirectionRule rule = part.work.rule;
    const bool takes_signs = group.settings.method == Method::kSign && rule == DirectionRule::kPrecondition;
    Real* const h = part.In(batch.first);
    Real* const signs = part.In(batch.second);
    char* const average = tables.state_out + e.offset;
    char* const moment = tables.state_out + v.offset;
    const Rounding filtered_rounding(tables, part.tile.block, RoundedState::kFilteredGrad);
    const Rounding moment_rounding(tables, part.tile.block, RoundedMomentOf(part.block));
    struct Loaded {
      Real gradient, average, moment;
    };
    const auto load = [&](int64_t i) -> Loaded {
      return {h[i], filtered ? ReadAs<Real>(average, e.dtype, part.begin + i) : Real{0},
              has_moment ? ReadAs<Real>(moment, v.dtype, part.begin + i) : Real{0}};
    };
    const double square = cta.SumLoaded(part.size, load, [&](int64_t i, const Loaded& old) {
      const int64_t at = part.begin + i;
      const Real g = old.gradient;
      Real direction = g;
      if (filtered) {
        filtered_rounding.Write(average, e.dtype, at, at, NextFiltered(scalars, old.average, g));
        direction = FilteredGradient(scalars, old.average, g);
      }
      Real grafted = direction;
      if (has_moment) {
        const Real next = NextMoment(scalars, old.moment, g);
        moment_rounding.Write(moment, v.dtype, at, at, next);
        grafted = MomentDirection(scalars, direction, next);
      }
      h[i] = rule == DirectionRule::kGraft ? grafted : rule == DirectionRule::kZero ? Real{0} : direction;
      if (takes_signs) signs[i] = SignOf(direction);
      return static_cast<double>(grafted) * static_cast<double>(grafted);
    });
    cta.Once([&] { batch.sums[2 * cta.index()] = square; });
  }
};

// Returns whether the length of a block's direction is multiplied by the dual norm of the filtered gradient: the
// inner product of direction and filtered gradient. If so, BatchTables::first contains the filtered gradient when
// NormBody runs.
SHAMPOO_DEVICE inline bool ScalesByDualNorm(const DeviceGroup& group, const BlockWork& work) {
  return group.settings.dual_norm_scale && work.rule == DirectionRule::kPrecondition &&
         group.grafting == Grafting::kNone;
}

template <typename Real>
struct NormBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (tables.state->go == 0 || part.work.go == 0) return;
    const Real* const p = part.Direction(batch);
    const double square = cta.SumLoaded(
        part.size, [&](int64_t i) { return p[i]; },
        [&](int64_t, Real value) { return static_cast<double>(value) * static_cast<double>(value); });
    cta.Once([&] { batch.sums[2 * cta.index() + 1] = square; });
    if (!ScalesByDualNorm(part.group, part.work)) return;
    const Real* const h = part.In(batch.first);
    const double product =
        cta.Sum(part.size, [&](int64_t i) { return static_cast<double>(h[i]) * static_cast<double>(p[i]); });
    cta.Once([&] { batch.products[cta.index()] = product; });
  }
};

SHAMPOO_DEVICE inline UpdateTargets TargetsOf(const Tables& tables, const DeviceBlock& block) {
  const DeviceParam& param = tables.params[block.param];
  const DeviceGroup& group = tables.groups[block.scalars];
  return {.computation = block.computation,
          .param = param.param_dtype,
          .out = param.out_dtype,
          .output = group.output,
          .has_momentum = block.momentum.present() && group.momentum != 0,
          .momentum = block.momentum.dtype,
          .has_copy = tables.buffers[block.buffers].copy != nullptr,
          .copy = param.copy_dtype,
          .is_exchanged = block.exchange_at >= 0,
          .exchanges_params = tables.exchange_params != 0,
          .exchange = block.exchange_dtype};
}

// Decides whether the direction of a block is usable, and how FitBody checks that the results of the update fit their
// dtypes.
SHAMPOO_DEVICE inline void DecideCheck(const Tables& tables, int32_t b) {
  const DeviceBlock& block = tables.blocks[b];
  BlockWork& work = tables.work[b];
  const StepScalars scalars = ScalarsOfBlock(tables.groups[block.scalars], work);
  const bool fits = work.states_fit != 0 && DirectionFits(scalars, block.computation, work.scale.size);
  work.update_skipped = fits ? 0 : 1;
  const UpdateTargets targets = TargetsOf(tables, block);
  work.check = work.update_skipped != 0
                   ? FitCheckMode::kNone
                   : FitCheckFor(scalars, targets, BoundsSuffice(LimitsOf(targets), targets), work.scale.size);
}

// Determines how the step of a block with the key averaging moves the parameter and the newest iterate.
SHAMPOO_DEVICE inline void SetAveraging(const Tables& tables, const DeviceBlock& block, const DeviceGroup& group,
                                        BlockWork* work) {
  const double lr_sum =
      block.lr_sum.present() ? *reinterpret_cast<const double*>(tables.state_out + block.lr_sum.offset) : 0;
  work->averaging = MakeAveragingStep(group.settings, group.lr, lr_sum);
  work->averaged_scale = work->scale;
}

// Computes the scale of a block's direction, with one CTA for each block.
template <typename Real>
struct ScaleBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    const DeviceBlock& block = tables.blocks[b];
    BlockWork& work = tables.work[b];
    if (tables.state->go == 0 || work.go == 0) return;
    const DeviceGroup& group = tables.groups[block.scalars];
    const auto norm_of = [&](int64_t which) {
      return sqrt(cta.Sum(block.tiles, [&](int64_t i) { return batch.sums[2 * (block.first_tile + i) + which]; }));
    };
    const double of_graft = norm_of(0);
    const double norm = norm_of(1);
    const bool is_grafted = work.rule == DirectionRule::kPrecondition && group.grafting != Grafting::kNone;
    double dual_norm = 1;
    if (ScalesByDualNorm(group, work)) {
      dual_norm = cta.Sum(block.tiles, [&](int64_t i) { return batch.products[block.first_tile + i]; });
    }
    // With method=muon and second_moment=row or second_moment=short, the division by the second moment changes the norm
    // of the direction. BlockWork::scale restores the norm.
    const bool keeps_norm = work.rule == DirectionRule::kPrecondition && block.direction_moment.present() &&
                            block.moment_of_direction != DirectionMoment::kElement && norm > 0 && IsFinite(norm);
    cta.Once([&] {
      const double kept = keeps_norm ? work.orthogonal_norm : norm;
      work.scale = ScaleDirection(group, is_grafted, kept, of_graft);
      if (keeps_norm) work.scale.down *= kept / norm;
      if (ScalesByDualNorm(group, work)) ScaleByDualNorm(dual_norm, &work.scale);
      if (IsFinite(work.scale.size)) {
        const int64_t rows = RowsToScale(group.settings, block.orthogonalized != 0, block.matrix_rows);
        work.scale = LimitNorm(group.settings, block.elements, rows, block.matrix_columns, work.scale);
      }
      if (block.iterate_offset.present()) SetAveraging(tables, block, group, &work);
      DecideCheck(tables, b);
    });
  }
};

// Calls DecideCheck() again, after ControlNorms() or MoveIterates() has replaced directions.
struct DecideCheckBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    cta.ForEach(batch.block_count, [&](int64_t i) {
      const int32_t b = batch.blocks[i];
      if (IsStepped(tables, b)) DecideCheck(tables, b);
    });
  }
};

// Returns the results of ApplyDirections() for one element.
template <typename Real>
SHAMPOO_DEVICE AppliedElement<Real> Applied(const BlockTile<Real>& part, const ApplyScalars<Real>& scalars, Real p,
                                            Real w, Real m) {
  return part.has_momentum() ? ApplyElement<true>(scalars, p, w, m) : ApplyElement<false>(scalars, p, w, m);
}

template <typename Real>
SHAMPOO_DEVICE ApplyScalars<Real> ScalarsOf(const BlockTile<Real>& part) {
  ApplyScalars<Real> scalars =
      MakeApplyScalars<Real>(ScalarsOfBlock(part.group, part.work), part.work.scale.down, part.work.scale.up);
  if (part.work.keeps_parameter != 0) scalars.decay = scalars.shrinkage = 0;
  return scalars;
}

template <typename Real>
struct FitBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (tables.state->go == 0 || part.work.go == 0 || part.work.check == FitCheckMode::kNone) return;
    const bool fits = (part.work.check == FitCheckMode::kByBound && IsSmall(cta, part)) || ResultFits(cta, part);
    cta.Once([&] { batch.fits[cta.index()] = fits ? 1 : 0; });
  }

 private:
  SHAMPOO_DEVICE const void* ParamOf(const BlockTile<Real>& part) const {
    return tables.buffers[part.block.buffers].param;
  }
  SHAMPOO_DEVICE Real MomentumAt(const BlockTile<Real>& part, int64_t i) const {
    const StateSlot& m = part.block.momentum;
    return part.has_momentum() ? ReadAs<Real>(tables.state_out + m.offset, m.dtype, part.begin + i) : Real{0};
  }

  SHAMPOO_DEVICE bool IsSmall(const Cta& cta, const BlockTile<Real>& part) const {
    const Dtype dtype = tables.params[part.block.param].param_dtype;
    const auto largest = [&](bool is_read, const auto& value_at) {
      const int64_t count = is_read ? part.size : 0;
      return BitsAs<double>(cta.Largest(count, [&](int64_t i) { return MagnitudeBits(value_at(i)); }));
    };
    const StepScalars scalars = ScalarsOfBlock(part.group, part.work);
    const double largest_w = largest(scalars.decays_parameter(), [&](int64_t i) {
      return ReadAs<double>(ParamOf(part), dtype, PlaceOf(part.block, part.begin + i));
    });
    const double largest_m =
        largest(part.has_momentum(), [&](int64_t i) { return static_cast<double>(MomentumAt(part, i)); });
    return StaysSmall(scalars, part.block.computation, part.has_momentum(), part.work.scale.size, largest_w, largest_m);
  }

  SHAMPOO_DEVICE bool ResultFits(const Cta& cta, const BlockTile<Real>& part) const {
    const UpdateLimits limits = LimitsOf(TargetsOf(tables, part.block));
    const ApplyScalars<Real> scalars = ScalarsOf(part);
    const Dtype dtype = tables.params[part.block.param].param_dtype;
    const Dtype exchange_dtype = part.block.exchange_dtype;
    const bool sends_updates = part.block.exchange_at >= 0 && tables.exchange_params == 0;
    const Real* const p = part.Direction(batch);
    const int64_t first = cta.First(part.size, [&](int64_t i) {
      const int64_t place = PlaceOf(part.block, part.begin + i);
      const Real w = ReadAs<Real>(ParamOf(part), dtype, place);
      const AppliedElement<Real> applied = Applied(part, scalars, p[i], w, MomentumAt(part, i));
      // The owner rounds the update to the exchange dtype before all ranks add the update to the parameter.
      const Real value = sends_updates ? w + RoundedTo(exchange_dtype, applied.update) : applied.value;
      return !ElementFits(limits, applied, value, IsFinite(ReadAs<double>(ParamOf(part), dtype, place)));
    });
    return first == part.size;
  }
};

struct DecideSkipBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = batch.blocks[cta.index()];
    const DeviceBlock& block = tables.blocks[b];
    BlockWork& work = tables.work[b];
    if (tables.state->go == 0 || work.go == 0 || work.check == FitCheckMode::kNone) return;
    const int64_t first = cta.First(block.tiles, [&](int64_t i) { return batch.fits[block.first_tile + i] == 0; });
    cta.Once([&] { work.update_skipped = first < block.tiles ? 1 : 0; });
  }
};

// Updates the state at DeviceBlock::average_offset() while a step writes the parameter of the block. With weight_ema,
// the state is the average minus W; with averaging, it is the iterate minus W (core/rules/averages.h).
template <typename Real, typename Rounding>
class AverageTracker {
 public:
  SHAMPOO_DEVICE AverageTracker(const Tables& tables, const BatchTables& batch, const BlockTile<Real>& part)
      : tables_(tables),
        part_(part),
        param_(tables.params[part.block.param]),
        slot_(part.block.average_offset()),
        state_rounding_(tables, part.tile.block, RoundedAverageOf(part.block)),
        param_rounding_(tables, part.tile.block, RoundedState::kParam),
        offset_(tables.state_out + slot_.offset),
        move_(part.work.averaging, part.group, part.work.averaged_scale),
        p_(part.In(OtherBuffer(batch, part.block, part.work))),
        is_needed_(MovesAverage(part.group.settings, part.group.t, part.block.iterate_offset.present(),
                                part.block.ema_offset.present())) {}

  // i: the index, in the tile, of an element of the parameter. w: its old value. applied: its update and new value.
  SHAMPOO_DEVICE void Track(int64_t i, Real w, const AppliedElement<Real>& applied) const {
    if (!is_needed_) return;
    const int64_t at = part_.begin + i;
    const Real old = ReadAs<Real>(offset_, slot_.dtype, at);
    state_rounding_.Write(offset_, slot_.dtype, at, at, Next(i, w, old, Written(at, w, applied)));
  }

 private:
  SHAMPOO_DEVICE Real Next(int64_t i, Real w, Real old, Real written) const {
    if (!part_.block.iterate_offset.present()) {
      return NextEmaOffset(static_cast<Real>(part_.group.settings.weight_ema), old, w, written);
    }
    // If MoveIterates() has not replaced P, the iterate does not move.
    const Real iterate = part_.work.is_difference != 0 ? move_.Of(p_[i], w, old).iterate : old;
    return NextIterateOffset(iterate, w, written);
  }

  // Returns the new value of an element of the parameter. If the block is exchanged, the value is rounded as on the
  // ranks that receive the update. at: the index of the element in the block.
  SHAMPOO_DEVICE Real Written(int64_t at, Real w, const AppliedElement<Real>& applied) const {
    const bool is_exchanged = part_.block.exchange_at >= 0;
    const auto sent = [&](Real value) { return is_exchanged ? RoundedTo(part_.block.exchange_dtype, value) : value; };
    if (part_.group.output == Output::kUpdates) {
      const Real update = param_rounding_.Rounded(param_.out_dtype, at, sent(applied.update));
      return RoundedTo(param_.param_dtype, w + update);  // the program that calls the library adds the update
    }
    const bool sends_update = is_exchanged && tables_.exchange_params == 0;
    const Real value = sends_update ? w + sent(applied.update) : sent(applied.value);
    return param_rounding_.Rounded(param_.out_dtype, at, value);
  }

  const Tables& tables_;
  const BlockTile<Real>& part_;
  const DeviceParam& param_;
  const StateSlot& slot_;
  const Rounding state_rounding_;
  const Rounding param_rounding_;
  char* const offset_;
  const AveragedMove<Real> move_;
  const Real* const p_;
  const bool is_needed_;
};

// Replaces AverageTracker in batches that have no block with an average.
template <typename Real, typename Rounding>
class NoAverage {
 public:
  SHAMPOO_DEVICE NoAverage(const Tables&, const BatchTables&, const BlockTile<Real>&) {}
  SHAMPOO_DEVICE void Track(int64_t, Real, const AppliedElement<Real>&) const {}
};

template <typename Real, typename Rounding, template <typename, typename> typename Average>
struct ApplyBody {
  Tables tables;
  BatchTables batch;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const BlockTile<Real> part(tables, batch, cta.index());
    if (tables.state->rejected != 0) return;
    const bool moves = tables.state->go != 0 && part.work.go != 0 && part.work.update_skipped == 0;
    if (moves) return Update(cta, part);
    if (part.block.exchange_at < 0) return PassThrough(cta, tables, part.block, part.begin, part.size);
    if (part.begin > 0) return;
    char* const sent = tables.exchange_buffers + part.block.exchange_at;
    cta.ForEach(static_cast<int64_t>(SizeOf(part.block.exchange_dtype)),
                [&](int64_t i) { sent[i] = static_cast<char>(kSkippedMark); });
  }

  SHAMPOO_DEVICE void Update(const Cta& cta, const BlockTile<Real>& part) const {
    const Buffers& buffers = tables.buffers[part.block.buffers];
    const DeviceParam& param = tables.params[part.block.param];
    const Real* const p = part.Direction(batch);
    const StateSlot& m = part.block.momentum;
    const ApplyScalars<Real> scalars = ScalarsOf(part);
    const bool updates = part.group.output == Output::kUpdates;
    const bool exchanged = part.block.exchange_at >= 0;
    const Average<Real, Rounding> average(tables, batch, part);
    const Rounding momentum_rounding(tables, part.tile.block, RoundedState::kMomentum);
    const Rounding param_rounding(tables, part.tile.block, RoundedState::kParam);
    if (part.work.is_difference != 0 && part.block.radius.present() && part.begin == 0) {
      cta.Once([&] { *reinterpret_cast<double*>(tables.state_out + part.block.radius.offset) = part.work.radius; });
    }
    char* const sent = exchanged ? tables.exchange_buffers + part.block.exchange_at : nullptr;
    char* const moment = tables.state_out + m.offset;
    struct Loaded {
      int64_t place;
      Real direction, param, moment;
    };
    const auto load = [&](int64_t i) -> Loaded {
      const int64_t place = PlaceOf(part.block, part.begin + i);
      return {place, p[i], ReadAs<Real>(buffers.param, param.param_dtype, place),
              part.has_momentum() ? ReadAs<Real>(moment, m.dtype, part.begin + i) : Real{0}};
    };
    cta.ForEachLoaded(part.size, load, [&](int64_t i, const Loaded& old) {
      const int64_t at = part.begin + i;
      const int64_t place = old.place;
      const AppliedElement<Real> applied = Applied(part, scalars, old.direction, old.param, old.moment);
      if (part.has_momentum()) momentum_rounding.Write(moment, m.dtype, at, at, applied.moved);
      average.Track(i, old.param, applied);
      if (exchanged) {
        WriteAs(sent, part.block.exchange_dtype, at, tables.exchange_params != 0 ? applied.value : applied.update);
        return;
      }
      param_rounding.Write(buffers.out, param.out_dtype, place, at, updates ? applied.update : applied.value);
      if (buffers.copy != nullptr) WriteAs(buffers.copy, param.copy_dtype, place, applied.value);
    });
  }
};

template <typename Real, typename Rounding>
using PlainApplyBody = ApplyBody<Real, Rounding, NoAverage>;
template <typename Real, typename Rounding>
using AveragedApplyBody = ApplyBody<Real, Rounding, AverageTracker>;

}  // namespace

cudaError_t FilterGradients(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  return LaunchRounding<FilterBody>(stream, batch.tile_count, tables, computation, tables, batch);
}

cudaError_t CheckDirections(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  cudaError_t error = LaunchOver<NormBody>(stream, batch.tile_count, tables, batch, computation);
  if (error == cudaSuccess) error = LaunchOver<ScaleBody>(stream, batch.block_count, tables, batch, computation);
  if (error == cudaSuccess && batch.norm_rows != nullptr) {
    error = ControlNorms(stream, tables, batch, computation);
  }
  if (error == cudaSuccess && batch.has_iterates != 0) error = MoveIterates(stream, tables, batch, computation);
  if (error == cudaSuccess && (batch.norm_rows != nullptr || batch.has_iterates != 0)) {
    error = Launch(stream, 1, DecideCheckBody{tables, batch});
  }
  if (error == cudaSuccess) error = LaunchOver<FitBody>(stream, batch.tile_count, tables, batch, computation);
  if (error == cudaSuccess) error = Launch(stream, batch.block_count, DecideSkipBody{tables, batch});
  return error;
}

cudaError_t ApplyDirections(cudaStream_t stream, const Tables& tables, const BatchTables& batch, Dtype computation) {
  const int64_t tiles = batch.tile_count;
  return batch.has_averages != 0 ? LaunchRounding<AveragedApplyBody>(stream, tiles, tables, computation, tables, batch)
                                 : LaunchRounding<PlainApplyBody>(stream, tiles, tables, computation, tables, batch);
}

}  // namespace shampoo::cuda
