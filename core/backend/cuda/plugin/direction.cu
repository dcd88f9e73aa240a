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

// What a block writes must fit: the limits of CanApply on the CPU (core/backend/cpu/apply_pass.cc).
struct Limits {
  double own, momentum, out, copy, sent;

  SHAMPOO_DEVICE Limits(const Tables& tables, const DeviceBlock& block, bool has_momentum) {
    const DeviceParam& param = tables.params[block.param];
    own = LargestFinite(block.computation);
    momentum = has_momentum ? Smaller(LargestFinite(block.momentum.dtype), own) : own;
    out = LargestFinite(param.out_dtype);
    copy = tables.buffers[block.param].copy != nullptr ? LargestFinite(param.copy_dtype) : own;
    sent = block.exchange_at >= 0 ? LargestFinite(block.exchange_dtype) : own;
  }
  SHAMPOO_DEVICE bool AreNarrow() const { return Smaller(Smaller(momentum, out), Smaller(copy, sent)) < own; }
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
      const Limits limits(tables, block, block.momentum.present() && group.momentum != 0);
      const double moved = fabs(group.lr) * size;
      work.stands = !(size < limits.own && moved < limits.own);
      const bool is_small = (size > moved ? size : moved) < 1e-9 * limits.own;
      const bool wide_param = LargestFinite(tables.params[block.param].param_dtype) > limits.own;
      work.check = !work.stands && (limits.AreNarrow() || !is_small || wide_param);
    });
  }
};

// The arithmetic of the last pass, in Real for the writes and in double to see whether they fit.
template <typename Real, typename Wide>
struct Applied {
  Wide moved, update, value;

  SHAMPOO_DEVICE Applied(const Part<Real>& part, Wide p, Wide w, Wide m) {
    const GroupScalars& group = part.group;
    Wide direction = p * static_cast<Real>(part.work.down) * static_cast<Real>(part.work.up);
    // Without decay nothing is added: W may be infinite.
    if (group.decoupled_decay != 0) direction += static_cast<Real>(group.decoupled_decay) * w;
    moved = 0;
    if (part.has_momentum()) {
      const Wide momentum = static_cast<Real>(group.momentum);
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
    if (tables.state->go == 0 || part.work.go == 0 || part.work.check == 0) return;
    const Limits limits(tables, part.block, part.has_momentum());
    const DeviceParam& param = tables.params[part.block.param];
    const Buffers& buffers = tables.buffers[part.block.param];
    const Real* const p = part.Direction(wave);
    const StateSlot& m = part.block.momentum;
    const bool updates = part.group.output == Output::kUpdates;
    const int64_t first = cta.First(part.size, [&](int64_t i) {
      const int64_t place = PlaceOf(part.block, part.begin + i);
      const double w = ReadAs<double>(buffers.param, param.param_dtype, place);
      const double moment =
          part.has_momentum() ? ReadAs<double>(tables.state_out + m.offset, m.dtype, part.begin + i) : 0;
      const Applied<Real, double> applied(part, p[i], w, moment);
      if (!(fabs(applied.moved) <= limits.momentum)) return true;
      // A parameter that is infinite already stays so: that is not this step's doing.
      if (!IsFinite(w)) return false;
      const double written = updates ? applied.update : applied.value;
      const double sent = tables.exchange_params != 0 ? applied.value : applied.update;
      return !(fabs(written) <= limits.out && fabs(applied.value) <= Smaller(limits.copy, limits.own) &&
               fabs(sent) <= limits.sent);
    });
    cta.Once([&] { wave.fits[cta.index()] = first == part.size ? 1 : 0; });
  }
};

struct StandBody {
  Tables tables;
  WaveTables wave;

  SHAMPOO_DEVICE void operator()(const Cta& cta) const {
    const int32_t b = wave.blocks[cta.index()];
    const DeviceBlock& block = tables.blocks[b];
    BlockWork& work = tables.work[b];
    if (tables.state->go == 0 || work.go == 0 || work.check == 0) return;
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
      const Applied<Real, Real> applied(part, p[i], w, old);
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
