// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "core/rules/averages.h"
#include "core/rules/basis.h"
#include "core/rules/muon.h"
#include "core/rules/norms.h"
#include "core/rules/rounding.h"
#include "core/rules/schedule.h"
#include "tests/core/rules_numbers.h"

// Cases of the rules of directions, averages, schedules and rounding. tests/core/rules_cases.h describes the form of
// the cases and lists the tables. The expected numbers were computed by hand, or are written as formulas.
namespace shampoo {

// The norm of a direction after the keys update_norm, shape_scale and max_update_rms have been applied. Before that,
// the direction is P * 0.5 * 4, and its norm is `size`.
struct NormCase {
  UpdateNorm norm;
  double target;
  ShapeScale shape;
  int64_t rows, columns;
  double max_rms;
  int64_t elements;
  double expected;
  double size = 8;

  // Returns the norm, or kNoResult if P times the new scale does not have this norm.
  SHAMPOO_HD double Run() const {
    GroupSettings settings;
    settings.update_norm = norm;
    settings.update_norm_target = target;
    settings.shape_scale = shape;
    settings.max_update_rms = max_rms;
    const DirectionScale limited = LimitNorm(settings, elements, rows, columns, {0.5, 4, size});
    return limited.down * limited.up * (size / 2) == limited.size ? limited.size : kNoResult;
  }
};

inline constexpr auto kNoUpdateNorm = UpdateNorm::kNone;
inline constexpr auto kFrobeniusNorm = UpdateNorm::kFrobenius;
inline constexpr NormCase kNormCases[] = {
    {kNoUpdateNorm, 3, ShapeScale::kNone, 0, 0, 0, 16, 8},
    {kFrobeniusNorm, 3, ShapeScale::kNone, 0, 0, 0, 16, 3},
    {UpdateNorm::kRms, 3, ShapeScale::kNone, 0, 0, 0, 16, 12},
    {kFrobeniusNorm, 3, ShapeScale::kNone, 0, 0, 0, 16, 0, 0},  // a direction of zeros does not change
    {kNoUpdateNorm, 3, ShapeScale::kNone, 0, 0, 2, 4, 4},
    {kNoUpdateNorm, 3, ShapeScale::kNone, 0, 0, 2, 16, 8},
    {kNoUpdateNorm, 3, ShapeScale::kNone, 0, 0, 2, 64, 8},
    {UpdateNorm::kRms, 3, ShapeScale::kNone, 0, 0, 2, 16, 8},
    {kNoUpdateNorm, 3, ShapeScale::kNone, 16, 4, 0, 64, 8},
    {kNoUpdateNorm, 3, ShapeScale::kMuon, 16, 4, 0, 64, 16},
    {kNoUpdateNorm, 3, ShapeScale::kMuon, 4, 16, 0, 64, 8},
    {kNoUpdateNorm, 3, ShapeScale::kRmsAdam, 16, 4, 0, 64, 8 * (0.2 * 4)},
    {kNoUpdateNorm, 3, ShapeScale::kRmsAdam, 4, 16, 0, 64, 8 * (0.2 * 4)},
    {kNoUpdateNorm, 3, ShapeScale::kSpectral, 4, 16, 0, 64, 4},
    {kNoUpdateNorm, 3, ShapeScale::kSqrtMax, 4, 16, 0, 64, 32},
    {kNoUpdateNorm, 3, ShapeScale::kSqrtMax, 0, 0, 0, 64, 8},  // a vector
    {kFrobeniusNorm, 3, ShapeScale::kSpectral, 16, 4, 0, 64, 6},
    {kFrobeniusNorm, 3, ShapeScale::kSpectral, 16, 4, 0.5, 64, 4},
};

// The new value of the only element w of a tensor after a step with norm_control or update_floor. The direction D
// is 2 p. radial_outward is 1/2, and radial_inward is 1/4. Therefore norm_control=radial and norm_control=radial_brake
// multiply an increase of the norm by 1/2, and a decrease by 1/4.
struct NormControlCase {
  NormControl control;
  double floor;
  double w, p, lr;
  double expected;
  double radius = 0;
  double decay = 0;
  bool before_ratio = false;  // whether `expected` is the value before the step corrects the norm

  // Returns NaN if norm_control cannot move the parameter.
  SHAMPOO_HD double Run() const {
    GroupSettings settings;
    settings.norm_control = control;
    settings.update_floor = floor;
    settings.radial_outward = 0.5;
    settings.radial_inward = 0.25;
    const double decayed = DecayedElement(settings, decay, w, p);
    const NormSums sums = TermsOf(decayed, p);
    const double known = KnownRadius(settings, radius);
    if (!CanControl(settings, sums, known)) return kNotANumber;
    NormControlStep step(settings, lr, sums, known, {0.5, 4, 0});
    step.Add(sums);
    const double moved = step.MoveOf(sums).Of(decayed, p);
    if (before_ratio) return moved;
    return w - ControlledDifference(w, step.Ratio(moved < 0 ? -moved : moved), moved);
  }
};

inline constexpr NormControlCase kNormControlCases[] = {
    {NormControl::kNone, 0, 6, 1, 0.5, 5},
    {NormControl::kNone, 0, 8, 1, 0.5, 5, 0, 0.25},  // weight decay changes w from 8 to 6 first
    {NormControl::kHyperball, 0, 3, 4, 0.8, -5, 5},
    {NormControl::kHyperball, 0, 4, -4, 0.8, 5, 5},
    {NormControl::kHyperball, 0, 4, 0, 0.8, 5, 5},
    {NormControl::kHyperball, 0, 4, 1, 0.8, kNotANumber, 0},
    {NormControl::kRelative, 0, 6, 0.5, 0.25, 4.5},
    {NormControl::kRelative, 0, 6, -8, 0.25, 7.5},
    {NormControl::kRelative, 0, 6, 0, 0.25, 6},
    {NormControl::kRelative, 0, 0, 1, 0.25, kNotANumber},
    {NormControl::kRadialBrake, 0, 6, -1, 1, 7},   // without the brake, the new value would be 8
    {NormControl::kRadialBrake, 0, 6, 1, 1, 5.5},  // without the brake, the new value would be 4
    {NormControl::kRadialBrake, 0, 2, 5, 1, -5},   // without the brake, the new value would be -8
    {NormControl::kRadial, 0, 4, -1, 1, 5},
    {NormControl::kRadial, 0, 4, 1, 1, 3.5},
    {NormControl::kRadial, 0, 4, 1, 1, 3.5, 0, 0, true},
    {NormControl::kRadial, 0, 0, 1, 1, -2},  // norm_control=radial has no effect if w is 0
    // update_floor=0.5 lengthens D to half of the norm of the parameter, unless D is 0 or already longer.
    {NormControl::kNone, 0.5, 6, 0.5, 1, 3},
    {NormControl::kNone, 0.5, 6, -0.5, 1, 9},
    {NormControl::kNone, 0.5, 6, 4, 1, -2},
    {NormControl::kNone, 0.5, 6, 0, 1, 6},
};

// A call of a rule for averages, with the arguments a, b and c. The comment on each Ask lists these arguments.
// average_eval is 3/4, average_train is 1/2, average_lr_power is 2, weight_ema is 1/2, and weight_ema_start is 3.
struct AverageCase {
  enum class Ask {
    kPull,         // lr, the sum of the weights of earlier iterates
    kMove,         // the same as for kPull
    kDifference,   // weight decay, pull, Z - W; p is 4, w is 3, lr is 1/2, and AveragingStep::move is 1/2
    kIterate,      // the same as for kDifference
    kMoves,        // step, whether the block has an iterate, whether the block has an average of weight_ema
    kNextIterate,  // the new iterate minus w, the old parameter w, the new parameter
    kNextEma,      // the old average minus w, the old parameter w, the new parameter
    kExport,       // blend
  };
  Ask ask;
  Averaging averaging;
  double a, b, c;
  double expected;

  template <typename Real>
  SHAMPOO_HD double RunAs() const {
    GroupSettings settings;
    settings.averaging = averaging;
    settings.average_eval = 0.75;
    settings.average_train = 0.5;
    settings.average_lr_power = 2;
    settings.weight_ema_start = 3;
    StepScalars step;
    step.lr = 0.5;
    step.shrinkage = a;
    const auto real = [](double number) { return static_cast<Real>(number); };
    const auto element = [&] { return AveragedMove<Real>({b, 0.5}, step, {2, 0.5, 0}).Of(real(4), real(3), real(c)); };
    switch (ask) {
      case Ask::kPull:
        return MakeAveragingStep(settings, a, b).pull;
      case Ask::kMove:
        return MakeAveragingStep(settings, a, b).move;
      case Ask::kDifference:
        return static_cast<double>(element().difference);
      case Ask::kIterate:
        return static_cast<double>(element().iterate);
      case Ask::kMoves:
        return MovesAverage(settings, static_cast<int64_t>(a), b != 0, c != 0) ? 1 : 0;
      case Ask::kNextIterate:
        return static_cast<double>(NextIterateOffset(real(a), real(b), real(c)));
      case Ask::kNextEma:
        return static_cast<double>(NextEmaOffset(real(0.5), real(a), real(b), real(c)));
      case Ask::kExport:
        return ExportFactor(settings, a);
    }
    return kNoResult;
  }
  SHAMPOO_HD double Run() const {
    const double wide = RunAs<double>();
    return wide == RunAs<float>() ? wide : kNoResult;
  }
};

using AskAverage = AverageCase::Ask;
inline constexpr auto kNoAverage = Averaging::kNone;
inline constexpr auto kGpa = Averaging::kGpa;
inline constexpr auto kScheduleFree = Averaging::kScheduleFree;
inline constexpr AverageCase kAverageCases[] = {
    {AskAverage::kPull, kNoAverage, 0.5, 0, 0, 0},
    {AskAverage::kMove, kNoAverage, 0.5, 0, 0, 1},
    {AskAverage::kPull, kGpa, 0.5, 0, 0, 0.25},
    {AskAverage::kMove, kGpa, 0.5, 0, 0, 0.625},
    {AskAverage::kPull, kScheduleFree, 0.5, 0, 0, 1},  // the first iterate is the average
    {AskAverage::kMove, kScheduleFree, 0.5, 0, 0, 1},
    {AskAverage::kPull, kScheduleFree, 0.5, 0.75, 0, 0.25},  // the weight of the new iterate is 0.5^2
    {AskAverage::kMove, kScheduleFree, 0.5, 0.75, 0, 0.625},
    {AskAverage::kPull, kScheduleFree, 0, 0, 0, 0},  // all weights are 0
    {AskAverage::kMove, kScheduleFree, 0, 0, 0, 0.5},
    {AskAverage::kDifference, kGpa, 0, 0.25, 1, 0.75},  // move * lr * p - pull * (Z - W)
    {AskAverage::kIterate, kGpa, 0, 0.25, 1, -1},       // Z - W - lr * p
    {AskAverage::kDifference, kGpa, 0.25, 0.25, 1, 1},  // Z decays from 4 to 3
    {AskAverage::kIterate, kGpa, 0.25, 0.25, 1, -2},
    {AskAverage::kMoves, kNoAverage, 3, 0, 1, 0},
    {AskAverage::kMoves, kNoAverage, 4, 0, 1, 1},
    {AskAverage::kMoves, kGpa, 1, 1, 0, 1},
    {AskAverage::kMoves, kNoAverage, 4, 0, 0, 0},
    {AskAverage::kNextIterate, kGpa, 3, 1, 2, 2},
    {AskAverage::kNextEma, kNoAverage, 3, 1, 2, 1},
    {AskAverage::kExport, kNoAverage, 0.25, 0, 0, 0.25},
    {AskAverage::kExport, kGpa, 0.25, 0, 0, -0.25},  // W = (X + Z) / 2, so X - W = -(Z - W)
};

// A call of a rule of method muon, with the arguments a and b. The comment on each Ask lists these arguments.
struct MuonCase {
  enum class Ask {
    kExponent,        // the largest magnitude of an element of the matrix
    kCoefficient,     // the Newton-Schulz step, counted from 0; Entry::a is 3 in the first entry and 5 in the second
    kOutputsByRow,    // rows, columns
    kOutputsByShort,  // rows, columns
    kDivided,         // an element of the direction, divisor
    kScaledRows,      // rows, whether the direction is orthogonalized
    kScaledPostRows,  // the same arguments; with soap_post=orthogonalize
  };
  Ask ask;
  double a, b;
  double expected;

  SHAMPOO_HD double Run() const {
    switch (ask) {
      case Ask::kExponent:
        return ScaleExponent(a);
      case Ask::kCoefficient: {
        NsCoefficients coefficients;
        coefficients.count = 2;
        coefficients.entries[0].a = 3;
        coefficients.entries[1].a = 5;
        return EntryOf(coefficients, static_cast<int64_t>(a)).a;
      }
      case Ask::kOutputsByRow:
        return MeansAreOfOutputs(DirectionMoment::kRow, static_cast<int64_t>(a), static_cast<int64_t>(b)) ? 1 : 0;
      case Ask::kOutputsByShort:
        return MeansAreOfOutputs(DirectionMoment::kShort, static_cast<int64_t>(a), static_cast<int64_t>(b)) ? 1 : 0;
      case Ask::kDivided:
        return DividedByMoment(a, b);
      case Ask::kScaledRows:
      case Ask::kScaledPostRows: {
        GroupSettings settings;
        if (ask == Ask::kScaledPostRows) settings.soap_post = SoapPost::kOrthogonalize;
        return static_cast<double>(RowsToScale(settings, b != 0, static_cast<int64_t>(a)));
      }
    }
    return kNoResult;
  }
};

using AskMuon = MuonCase::Ask;
inline constexpr MuonCase kMuonCases[] = {
    {AskMuon::kExponent, 1, 0, 0},
    {AskMuon::kExponent, 0x1.fffffffffffffp0, 0, 0},
    {AskMuon::kExponent, 2, 0, 1},
    {AskMuon::kExponent, 0x1.fffffffffffffp-1, 0, -1},
    {AskMuon::kExponent, 0x1p-1074, 0, -1074},
    {AskMuon::kExponent, kInfinite, 0, 0},
    {AskMuon::kExponent, kNotANumber, 0, 0},
    {AskMuon::kCoefficient, 0, 0, 3},
    {AskMuon::kCoefficient, 1, 0, 5},
    {AskMuon::kCoefficient, 2, 0, 5},  // the last entry is repeated
    {AskMuon::kOutputsByRow, 2, 3, 1},
    {AskMuon::kOutputsByShort, 2, 3, 0},
    {AskMuon::kOutputsByShort, 3, 3, 1},
    {AskMuon::kOutputsByShort, 4, 3, 1},
    {AskMuon::kDivided, 6, 2, 3},
    {AskMuon::kDivided, 6, 0, 0},
    {AskMuon::kScaledRows, 4, 0, 4},
    {AskMuon::kScaledPostRows, 4, 0, 0},
    {AskMuon::kScaledPostRows, 4, 1, 4},
};

// The schedule of a block at step t of its group. RootTaskOf (core/rules/schedule.h) describes snapshot_step.
struct ScheduleCase {
  enum class Ask { kInterval, kLastRefresh, kNumber, kOffset, kTask, kRule, kRefreshes, kReads, kSnapshotAfter };
  Ask ask;
  int64_t t;
  double expected;
  RefreshKeys keys = {.start = 5, .frequency = 5};
  int64_t phase = 0;
  int64_t snapshot_step = 0;
  Grafting grafting = Grafting::kAdam;
  InitialInverse initial_inverse = InitialInverse::kIdentity;
  Method method = Method::kShampoo;
  bool is_preconditioned = true;
  bool is_owned = true;

  SHAMPOO_HD double Run() const {
    GroupSettings settings;
    settings.method = method;
    settings.grafting = grafting;
    settings.initial_inverse = initial_inverse;
    settings.start_preconditioning_step = keys.start;
    settings.precondition_frequency = keys.frequency;
    settings.root_async = keys.async;
    settings.refresh_growth = keys.growth;
    settings.root_spread = keys.spread;
    const GroupSchedule group = GroupScheduleOf(settings, t);
    const RootSchedule schedule =
        ScheduleOf(settings, group, {is_owned, UsesEigenbasis(method), is_preconditioned, phase, 0, snapshot_step});
    switch (ask) {
      case Ask::kInterval:
        return static_cast<double>(IntervalAfter(keys, t));
      case Ask::kLastRefresh:
        return static_cast<double>(group.last.step);
      case Ask::kNumber:
        return static_cast<double>(RefreshCount(keys, t));
      case Ask::kOffset:
        return static_cast<double>(SpreadOffset(keys, phase, IntervalAfter(keys, t)));
      case Ask::kTask:
        return NumberOf(schedule.task);
      case Ask::kRule:
        return NumberOf(schedule.rule);
      case Ask::kRefreshes:
        return Refreshes(schedule.task) ? 1 : 0;
      case Ask::kReads:
        return ReadsFactors(schedule.task) ? 1 : 0;
      case Ask::kSnapshotAfter:
        return static_cast<double>(SnapshotStepAfter(schedule.task, snapshot_step, t));
    }
    return kNoResult;
  }
};

using AskSchedule = ScheduleCase::Ask;
inline constexpr RefreshKeys kGrowingKeys = {.start = 8, .frequency = 20, .growth = 0.125};
inline constexpr RefreshKeys kSpreadKeys = {.start = 8, .frequency = 20, .growth = 0.125, .spread = true};
inline constexpr RefreshKeys kAsyncKeys = {.start = 5, .frequency = 5, .async = 2};
inline constexpr ScheduleCase kScheduleCases[] = {
    {AskSchedule::kInterval, 1000, 5},
    {AskSchedule::kInterval, 7, 1, kGrowingKeys},
    {AskSchedule::kInterval, 31, 3, kGrowingKeys},
    {AskSchedule::kInterval, 160, 20, kGrowingKeys},
    {AskSchedule::kLastRefresh, 4, 0},
    {AskSchedule::kLastRefresh, 9, 5},
    {AskSchedule::kLastRefresh, 10, 10},
    {AskSchedule::kNumber, 10, 2},
    {AskSchedule::kNumber, 14, 1, {.start = 12, .frequency = 5}},
    // The first refresh is at step 7, which is RefreshKeys::start. Later refreshes are at the multiples of 5 or, with
    // root_spread, at every fifth step after step 7.
    {AskSchedule::kLastRefresh, 9, 7, {.start = 7, .frequency = 5}},
    {AskSchedule::kLastRefresh, 11, 10, {.start = 7, .frequency = 5}},
    {AskSchedule::kLastRefresh, 11, 7, {.start = 7, .frequency = 5, .spread = true}},
    // With kGrowingKeys, refreshes are at steps 8 to 16, 18, 20, 22, 24, 27, ...
    {AskSchedule::kLastRefresh, 26, 24, kGrowingKeys},
    {AskSchedule::kNumber, 26, 13, kGrowingKeys},
    {AskSchedule::kLastRefresh, 27, 27, kGrowingKeys},
    {AskSchedule::kOffset, 80, 0, kGrowingKeys, 7},
    {AskSchedule::kOffset, 80, 3, kSpreadKeys, 7},  // phase * interval / frequency = 7 * 10 / 20
    {AskSchedule::kOffset, 160, 7, kSpreadKeys, 7},
    {AskSchedule::kTask, 24, NumberOf(RootTask::kCompute), kSpreadKeys, 6},
    // The refresh of the block is floor(7 * 3 / 20) = 1 step after the refresh of the group.
    {AskSchedule::kTask, 25, NumberOf(RootTask::kCompute), kSpreadKeys, 7},
    {AskSchedule::kTask, 24, NumberOf(RootTask::kNone), kSpreadKeys, 7},
    {AskSchedule::kTask, 5, NumberOf(RootTask::kCompute), kAsyncKeys},
    {AskSchedule::kTask, 10, NumberOf(RootTask::kTakeSnapshot), kAsyncKeys, 0, -5},
    {AskSchedule::kTask, 11, NumberOf(RootTask::kNone), kAsyncKeys, 0, 10},
    {AskSchedule::kTask, 12, NumberOf(RootTask::kFromSnapshot), kAsyncKeys, 0, 10},
    {AskSchedule::kTask, 15, NumberOf(RootTask::kCompute), kAsyncKeys, 0, 10},       // older roots are still pending
    {AskSchedule::kTask, 10, NumberOf(RootTask::kTakeSnapshot), kAsyncKeys, 0, 10},  // the block repeats step 10
    {AskSchedule::kTask, 15, NumberOf(RootTask::kCompute), kAsyncKeys, 0, -15},
    {AskSchedule::kRefreshes, 10, 0, kAsyncKeys, 0, -5},
    {AskSchedule::kReads, 10, 1, kAsyncKeys, 0, -5},
    {AskSchedule::kRefreshes, 12, 1, kAsyncKeys, 0, 10},
    {AskSchedule::kReads, 12, 0, kAsyncKeys, 0, 10},
    {.ask = AskSchedule::kReads, .t = 9, .expected = 1, .method = Method::kSoap},
    {AskSchedule::kSnapshotAfter, 5, -5, kAsyncKeys},
    {AskSchedule::kSnapshotAfter, 10, 10, kAsyncKeys, 0, -5},
    {AskSchedule::kSnapshotAfter, 12, -10, kAsyncKeys, 0, 10},
    {AskSchedule::kSnapshotAfter, 11, 10, kAsyncKeys, 0, 10},
    {AskSchedule::kRule, 5, NumberOf(DirectionRule::kPrecondition)},
    {AskSchedule::kRule, 4, NumberOf(DirectionRule::kGraft)},
    {.ask = AskSchedule::kRule, .t = 4, .expected = NumberOf(DirectionRule::kFiltered), .grafting = Grafting::kNone},
    {.ask = AskSchedule::kRule,
     .t = 4,
     .expected = NumberOf(DirectionRule::kZero),
     .grafting = Grafting::kNone,
     .initial_inverse = InitialInverse::kZero},
    {.ask = AskSchedule::kRule, .t = 5, .expected = NumberOf(DirectionRule::kGraft), .is_preconditioned = false},
    {.ask = AskSchedule::kTask, .t = 5, .expected = NumberOf(RootTask::kNone), .is_preconditioned = false},
    {.ask = AskSchedule::kTask, .t = 5, .expected = NumberOf(RootTask::kNone), .method = Method::kMuon},
    {.ask = AskSchedule::kRule, .t = 5, .expected = NumberOf(DirectionRule::kPrecondition), .method = Method::kMuon},
    // The first gradient of a block initializes its eigenbases. Only the owner counts the gradients of a block, so
    // other ranks have no task.
    {.ask = AskSchedule::kTask, .t = 9, .expected = NumberOf(RootTask::kInitialize), .method = Method::kSoap},
    {.ask = AskSchedule::kTask,
     .t = 9,
     .expected = NumberOf(RootTask::kNone),
     .method = Method::kSoap,
     .is_owned = false},
};

// If `rounds` is true, `value` is rounded to bfloat16 with the random bits `random`, and `expected` is the bit pattern
// of the result. If `rounds` is false, `expected` is the 16 random bits of the element with the number `element`.
struct RoundingCase {
  float value;
  uint32_t random;
  uint64_t element;
  bool rounds;
  double expected;

  SHAMPOO_HD double Run() const {
    const uint32_t bits = rounds ? RoundToBf16(value, random) : RandomOf(RandomBits({}, element >> 3), element);
    return static_cast<double>(bits);
  }
};

inline constexpr RoundingCase kRoundingCases[] = {
    {1, 0xFFFF, 0, true, 0x3F80},
    {0x1.01p0F, 0x7FFF, 0, true, 0x3F80},  // halfway between two numbers of bfloat16
    {0x1.01p0F, 0x8000, 0, true, 0x3F81},
    {-0x1.01p0F, 0x8000, 0, true, 0xBF81},
    {std::numeric_limits<float>::max(), 0xFFFF, 0, true, 0x7F7F},  // the result is finite
    {-std::numeric_limits<float>::max(), 0xFFFF, 0, true, 0xFF7F},
    {std::numeric_limits<float>::infinity(), 0xFFFF, 0, true, 0x7F80},
    {std::bit_cast<float>(0x7F800001U), 0, 0, true, 0x7FC0},  // the result is NaN
    // According to Random123, Philox4x32-10 maps a counter and a key of zeros to 6627e8d5 e169c58d bc57ac4c 9b00dbd8
    {0, 0, 0, false, 0xE8D5},
    {0, 0, 1, false, 0x6627},
    {0, 0, 5, false, 0xBC57},
    {0, 0, 7, false, 0x9B00},
};

}  // namespace shampoo
