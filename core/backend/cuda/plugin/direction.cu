// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/plugin/kernels.h"
#include "core/backend/cuda/plugin/parts.h"

namespace shampoo::cuda {
namespace {

// A block, and the part of it that a CTA works on.
template <typename Real>
struct Part {
  const DeviceTile& tile;
  const DeviceBlock& block;
  const GroupScalars& group;
  BlockWork& work;
  int64_t begin;
  int64_t size;

  SHAMPOO_DEVICE Part(const Tables& tables, const WaveTables& wave, int64_t index)
      : tile(wave.tiles[index]),
        block(tables.blocks[tile.block]),
        group(tables.groups[block.group]),
        work(tables.work[tile.block]),
        begin(TileBegin(tile)),
        size(TileSize(block, tile)) {}

  SHAMPOO_DEVICE Real* In(void* buffer) const { return static_cast<Real*>(buffer) + block.at + begin; }
  // Where P is: after the products, or before the first preconditioned step.
  SHAMPOO_DEVICE const Real* Direction(const WaveTables& wave) const {
    const bool second = work.rule == DirectionRule::kPrecondition && block.direction_in_second != 0;
    return In(second ? wave.second : wave.first);
  }
  SHAMPOO_DEVICE bool has_momentum() const { return block.momentum.present() && group.momentum != 0; }
};

template <typename Real>
struct FilterBody {
  Tables tables;
  WaveTables wave;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const Part<Real> part(tables, wave, cta.index());
    if (tables.state->go == 0 || part.work.go == 0) return;
    const GroupScalars& group = part.group;
    const StateSlot& e = part.block.filtered;
    const StateSlot& v = part.block.grafting;
    const bool filtered = e.present() && group.filter_keep != 0;
    const bool has_moment = v.present();
    const Real filter_keep = static_cast<Real>(group.filter_keep);
    const Real filter_add = static_cast<Real>(1 - group.filter_keep);
    const Real filter_correction = static_cast<Real>(group.filter_correction);
    const Real moment_keep = static_cast<Real>(group.moment_keep);
    const Real moment_add = static_cast<Real>(group.moment_add);
    const Real moment_correction = static_cast<Real>(group.moment_correction);
    const Real epsilon = static_cast<Real>(group.grafting_epsilon);
    const DirectionRule rule = part.work.rule;
    Real* const h = part.In(wave.first);
    const double square = cta.Sum(part.size, [&](int64_t i) {
      const Real g = h[i];
      Real direction = g;
      if (filtered) {
        char* const average = tables.state_out + e.offset;
        const Real next = filter_keep * ReadAs<Real>(average, e.dtype, part.begin + i) + filter_add * g;
        WriteAs(average, e.dtype, part.begin + i, next);
        direction = next / filter_correction;
      }
      Real grafted = direction;
      if (has_moment) {
        char* const moment = tables.state_out + v.offset;
        const Real next = moment_keep * ReadAs<Real>(moment, v.dtype, part.begin + i) + moment_add * (g * g);
        WriteAs(moment, v.dtype, part.begin + i, next);
        grafted = direction / (sqrt(next / moment_correction) + epsilon);
      }
      h[i] = rule == DirectionRule::kGraft ? grafted : rule == DirectionRule::kZero ? Real{0} : direction;
      return static_cast<double>(grafted) * static_cast<double>(grafted);
    });
    cta.Once([&] { wave.sums[2 * cta.index()] = square; });
  }
};

template <typename Real>
struct NormBody {
  Tables tables;
  WaveTables wave;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const Part<Real> part(tables, wave, cta.index());
    if (tables.state->go == 0 || part.work.go == 0) return;
    const Real* const p = part.Direction(wave);
    const double square = cta.Sum(part.size, [&](int64_t i) {
      const double value = static_cast<double>(p[i]);
      return value * value;
    });
    cta.Once([&] { wave.sums[2 * cta.index() + 1] = square; });
  }
};

SHAMPOO_DEVICE inline double Smaller(double a, double b) { return b < a ? b : a; }

// Far below half a unit in the last place of the limit, so that a parameter at the limit stays there.
SHAMPOO_DEVICE inline double SmallFor(Dtype computation) {
  return LargestFinite(computation) * (computation == Dtype::kF64 ? 0x1p-58 : 0x1p-29);
}

// The largest magnitudes that a block may write: WriteLimits of the CPU (core/backend/cpu/fit_check.cc).
struct WriteLimits {
  double momentum, update, value;
  bool narrow;

  SHAMPOO_DEVICE WriteLimits(const Tables& tables, const DeviceBlock& block) {
    const DeviceParam& param = tables.params[block.param];
    const GroupScalars& group = tables.groups[block.group];
    const double limit = LargestFinite(block.computation);
    momentum = update = value = limit;
    const auto lower = [](double* to, Dtype dtype) { *to = Smaller(*to, LargestFinite(dtype)); };
    if (block.momentum.present() && group.momentum != 0) lower(&momentum, block.momentum.dtype);
    lower(group.output == Output::kUpdates ? &update : &value, param.out_dtype);
    if (tables.buffers[block.param].copy != nullptr) lower(&value, param.copy_dtype);
    if (block.exchange_at >= 0) lower(tables.exchange_params != 0 ? &value : &update, block.exchange_dtype);
    narrow = Smaller(momentum, Smaller(update, value)) < limit;
  }
};

// One CTA for a block: the scale of its direction.
template <typename Real>
struct ScaleBody {
  Tables tables;
  WaveTables wave;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = wave.blocks[cta.index()];
    const DeviceBlock& block = tables.blocks[b];
    BlockWork& work = tables.work[b];
    if (tables.state->go == 0 || work.go == 0) return;
    const GroupScalars& group = tables.groups[block.group];
    const auto norm_of = [&](int64_t which) {
      return sqrt(cta.Sum(block.tiles, [&](int64_t i) { return wave.sums[2 * (block.first_tile + i) + which]; }));
    };
    const double of_graft = norm_of(0);
    const double norm = norm_of(1);
    const bool grafts = work.rule == DirectionRule::kPrecondition && group.grafting != Grafting::kNone;
    cta.Once([&] {
      work.down = grafts ? 1 / (norm + group.norm_guard) : 1;
      work.up = grafts ? of_graft : 1;
      // An infinite norm would scale P down to nothing, and NaN would be 0 times infinity.
      const double size = grafts && IsFinite(norm) ? of_graft : norm;
      const double limit = LargestFinite(block.computation);
      const double moved = fabs(group.lr) * size;
      work.stands = !(size < limit && moved < limit);
      work.check = work.stands != 0 ? FitCheck::kNone : CheckFor(block, group, size > moved ? size : moved);
    });
  }

  // size: a bound on the direction, and on the update without decay and momentum.
  SHAMPOO_DEVICE FitCheck CheckFor(const DeviceBlock& block, const GroupScalars& group, double size) const {
    const bool wide_param = LargestFinite(tables.params[block.param].param_dtype) > LargestFinite(block.computation);
    if (WriteLimits(tables, block).narrow || wide_param || !(size < SmallFor(block.computation))) {
      return FitCheck::kExact;
    }
    const bool has_momentum = block.momentum.present() && group.momentum != 0;
    return has_momentum || group.decoupled_decay != 0 ? FitCheck::kByBound : FitCheck::kNone;
  }
};

// The arithmetic of the last pass.
template <typename Real>
struct Applied {
  Real moved, update, value;

  SHAMPOO_DEVICE Applied(const Part<Real>& part, Real p, Real w, Real m) {
    const GroupScalars& group = part.group;
    Real direction = p * static_cast<Real>(part.work.down) * static_cast<Real>(part.work.up);
    // Without decay nothing is added: W may be infinite.
    if (group.decoupled_decay != 0) direction += static_cast<Real>(group.decoupled_decay) * w;
    moved = 0;
    if (part.has_momentum()) {
      const Real momentum = static_cast<Real>(group.momentum);
      moved = momentum * m + direction;
      direction = group.nesterov != 0 ? direction + momentum * moved : moved;
    }
    update = direction * -static_cast<Real>(group.lr);
    value = w + update;
  }
};

template <typename Real>
struct FitBody {
  Tables tables;
  WaveTables wave;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const Part<Real> part(tables, wave, cta.index());
    if (tables.state->go == 0 || part.work.go == 0 || part.work.check == FitCheck::kNone) return;
    const bool fits = (part.work.check == FitCheck::kByBound && StaysSmall(cta, part)) || ResultFits(cta, part);
    cta.Once([&] { wave.fits[cta.index()] = fits ? 1 : 0; });
  }

 private:
  SHAMPOO_DEVICE const void* ParamOf(const Part<Real>& part) const { return tables.buffers[part.block.param].param; }
  SHAMPOO_DEVICE Real MomentumAt(const Part<Real>& part, int64_t i) const {
    const StateSlot& m = part.block.momentum;
    return part.has_momentum() ? ReadAs<Real>(tables.state_out + m.offset, m.dtype, part.begin + i) : Real{0};
  }

  // Direction and update are small; with what decay and momentum add none is more than twice the sum. NaN is not small.
  SHAMPOO_DEVICE bool StaysSmall(const Cta& cta, const Part<Real>& part) const {
    const GroupScalars& group = part.group;
    const Dtype dtype = tables.params[part.block.param].param_dtype;
    const double added = BitsAs<double>(cta.Largest(part.size, [&](int64_t i) {
      double sum = part.has_momentum() ? group.momentum * fabs(static_cast<double>(MomentumAt(part, i))) : 0;
      if (group.decoupled_decay != 0) {
        sum += group.decoupled_decay * fabs(ReadAs<double>(ParamOf(part), dtype, PlaceOf(part.block, part.begin + i)));
      }
      return MagnitudeBits(sum);
    }));
    const double small = SmallFor(part.block.computation);
    return added < small && fabs(group.lr) * added < small;
  }

  SHAMPOO_DEVICE bool ResultFits(const Cta& cta, const Part<Real>& part) const {
    const WriteLimits limits(tables, part.block);
    const Dtype dtype = tables.params[part.block.param].param_dtype;
    const Dtype exchange_dtype = part.block.exchange_dtype;
    const bool sends_updates = part.block.exchange_at >= 0 && tables.exchange_params == 0;
    const Real* const p = part.Direction(wave);
    const int64_t first = cta.First(part.size, [&](int64_t i) {
      const int64_t place = PlaceOf(part.block, part.begin + i);
      const Real w = ReadAs<Real>(ParamOf(part), dtype, place);
      const Applied<Real> applied(part, p[i], w, MomentumAt(part, i));
      // Each rank adds the update as it was rounded for the exchange.
      const Real value = sends_updates ? w + RoundedTo(exchange_dtype, applied.update) : applied.value;
      if (!(fabs(static_cast<double>(applied.moved)) <= limits.momentum)) return true;
      if (!(fabs(static_cast<double>(applied.update)) <= limits.update)) return true;
      // A parameter that is not finite stays so: that is not this step's doing.
      return !(fabs(static_cast<double>(value)) <= limits.value) &&
             IsFinite(ReadAs<double>(ParamOf(part), dtype, place));
    });
    return first == part.size;
  }
};

struct StandBody {
  Tables tables;
  WaveTables wave;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = wave.blocks[cta.index()];
    const DeviceBlock& block = tables.blocks[b];
    BlockWork& work = tables.work[b];
    if (tables.state->go == 0 || work.go == 0 || work.check == FitCheck::kNone) return;
    const int64_t first = cta.First(block.tiles, [&](int64_t i) { return wave.fits[block.first_tile + i] == 0; });
    cta.Once([&] { work.stands = first < block.tiles ? 1 : 0; });
  }
};

template <typename Real>
struct ApplyBody {
  Tables tables;
  WaveTables wave;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const Part<Real> part(tables, wave, cta.index());
    if (tables.state->refused != 0) return;
    const bool moves = tables.state->go != 0 && part.work.go != 0 && part.work.stands == 0;
    if (moves) return Move(cta, part);
    if (part.block.exchange_at < 0) return PassThrough(cta, tables, part.block, part.begin, part.size);
    if (part.begin > 0) return;
    char* const sent = tables.gathered + part.block.exchange_at;
    cta.ForEach(static_cast<int64_t>(SizeOf(part.block.exchange_dtype)),
                [&](int64_t i) { sent[i] = static_cast<char>(kStandsByte); });
  }

  SHAMPOO_DEVICE void Move(const Cta& cta, const Part<Real>& part) const {
    const Buffers& buffers = tables.buffers[part.block.param];
    const DeviceParam& param = tables.params[part.block.param];
    const Real* const p = part.Direction(wave);
    const StateSlot& m = part.block.momentum;
    const bool updates = part.group.output == Output::kUpdates;
    const bool exchanged = part.block.exchange_at >= 0;
    char* const sent = exchanged ? tables.gathered + part.block.exchange_at : nullptr;
    cta.ForEach(part.size, [&](int64_t i) {
      const int64_t place = PlaceOf(part.block, part.begin + i);
      const Real w = ReadAs<Real>(buffers.param, param.param_dtype, place);
      char* const moment = tables.state_out + m.offset;
      const Real old = part.has_momentum() ? ReadAs<Real>(moment, m.dtype, part.begin + i) : Real{0};
      const Applied<Real> applied(part, p[i], w, old);
      if (part.has_momentum()) WriteAs(moment, m.dtype, part.begin + i, applied.moved);
      if (exchanged) {
        WriteAs(sent, part.block.exchange_dtype, part.begin + i,
                tables.exchange_params != 0 ? applied.value : applied.update);
        return;
      }
      WriteAs(buffers.out, param.out_dtype, place, updates ? applied.update : applied.value);
      if (buffers.copy != nullptr) WriteAs(buffers.copy, param.copy_dtype, place, applied.value);
    });
  }
};

}  // namespace

cudaError_t FilterGradients(cudaStream_t stream, const Tables& tables, const WaveTables& wave, Dtype computation) {
  return LaunchOver<FilterBody>(stream, wave.tile_count, tables, wave, computation);
}

cudaError_t JudgeDirections(cudaStream_t stream, const Tables& tables, const WaveTables& wave, Dtype computation) {
  cudaError_t error = LaunchOver<NormBody>(stream, wave.tile_count, tables, wave, computation);
  if (error == cudaSuccess) error = LaunchOver<ScaleBody>(stream, wave.block_count, tables, wave, computation);
  if (error == cudaSuccess) error = LaunchOver<FitBody>(stream, wave.tile_count, tables, wave, computation);
  if (error == cudaSuccess) error = Launch(stream, wave.block_count, StandBody{tables, wave});
  return error;
}

cudaError_t ApplyDirections(cudaStream_t stream, const Tables& tables, const WaveTables& wave, Dtype computation) {
  return LaunchOver<ApplyBody>(stream, wave.tile_count, tables, wave, computation);
}

}  // namespace shampoo::cuda
