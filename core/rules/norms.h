// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/host_device.h"
#include "core/config/settings.h"
#include "core/rules/step_scalars.h"
#include "core/rules/update.h"

// The keys that control norms of a direction or a parameter. A step first applies update_norm, then shape_scale, and
// then max_update_rms (LimitNorm). It then applies norm_control and update_floor together (NormControlStep).
namespace shampoo {

// Returns the factor with which shape_scale scales the direction of a matrix with this many rows (outputs) and columns.
SHAMPOO_HD inline double ShapeFactor(ShapeScale scale, int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows);
  const auto c = static_cast<double>(columns);
  switch (scale) {
    case ShapeScale::kNone:
      return 1;
    case ShapeScale::kMuon:
      return r > c ? std::sqrt(r / c) : 1;
    case ShapeScale::kRmsAdam:
      return 0.2 * std::sqrt(r > c ? r : c);
    case ShapeScale::kSpectral:
      return std::sqrt(r / c);
    case ShapeScale::kSqrtMax:
      return std::sqrt(r > c ? r : c);
  }
  return 1;
}

// Returns the number of rows for LimitNorm: 0 if shape_scale does not apply. If soap_post is not `none`, shape_scale
// scales only the directions that are orthogonalized.
constexpr int64_t RowsToScale(const GroupSettings& settings, bool is_orthogonalized, int64_t matrix_rows) {
  return settings.soap_post == SoapPost::kNone || is_orthogonalized ? matrix_rows : 0;
}

// Applies update_norm, shape_scale and max_update_rms to the scale of the direction of a tensor, and returns the new
// scale. elements: the number of elements of the tensor. scale.size: the norm of the direction, which is finite.
// matrix_rows: 0 if shape_scale does not apply, for example because the tensor has fewer than two dims (RowsToScale).
SHAMPOO_HD inline DirectionScale LimitNorm(const GroupSettings& settings, int64_t elements, int64_t matrix_rows,
                                           int64_t matrix_columns, const DirectionScale& scale) {
  const double root = std::sqrt(static_cast<double>(elements));
  double size = scale.size;
  if (size > 0 && settings.update_norm == UpdateNorm::kFrobenius) size = settings.update_norm_target;
  if (size > 0 && settings.update_norm == UpdateNorm::kRms) size = settings.update_norm_target * root;
  if (matrix_rows > 0) size *= ShapeFactor(settings.shape_scale, matrix_rows, matrix_columns);
  if (settings.max_update_rms > 0 && size > settings.max_update_rms * root) size = settings.max_update_rms * root;
  if (size == scale.size) return scale;
  return {scale.down / scale.size, scale.up * size, size};
}

// Returns the fraction of W that weight decay subtracts from W, before the step subtracts a multiple of the direction.
constexpr double DecayOf(const StepScalars& step) { return step.shrinkage + step.lr * step.decoupled_decay; }

// The inner products <W, W>, <P, W> and <P, P> over a tensor or over one row of the tensor. W is the parameter after
// weight decay, and P is the direction before it is multiplied by its scale.
struct NormSums {
  double ww = 0;
  double pw = 0;
  double pp = 0;

  SHAMPOO_HD NormSums& operator+=(const NormSums& other) {
    ww += other.ww;
    pw += other.pw;
    pp += other.pp;
    return *this;
  }
};

// Returns the terms that one element adds to NormSums. w: the element of W. p: the element of P.
constexpr NormSums TermsOf(double w, double p) { return {w * w, p * w, p * p}; }

// The coefficients of W1 = keep W - move P, for a tensor or for one row. NormControlStep defines W1.
struct ControlledMove {
  double keep = 1;
  double move = 0;

  // Returns an element of W1.
  constexpr double Of(double w, double p) const { return keep * w - move * p; }
};

// Returns w minus the new value of an element. w: its value before weight decay. moved: the element of W1. ratio:
// NormControlStep::Ratio().
constexpr double ControlledDifference(double w, double ratio, double moved) { return w - ratio * moved; }

// Returns the norm that norm_control=hyperball maintains, or 0 if this norm is not known yet. stored: the state
// `radius`.
constexpr double KnownRadius(const GroupSettings& settings, double stored) {
  return settings.norm_radius > 0 ? settings.norm_radius : stored;
}

// Returns whether norm_control can move a parameter. norm_control=hyperball cannot maintain a norm of 0. With
// norm_control=relative, a step has length 0 if the norm of the parameter is 0. total: the sums over the whole tensor.
// radius: the norm that norm_control=hyperball maintains.
constexpr bool CanControl(const GroupSettings& settings, const NormSums& total, double radius) {
  if (settings.norm_control == NormControl::kHyperball) return radius > 0;
  return settings.norm_control != NormControl::kRelative || total.ww != 0;
}

// Returns the element of W: the value after weight decay. w: the value before weight decay. p: the element of P. decay:
// DecayOf().
template <typename Real>
SHAMPOO_HD double DecayedElement(const GroupSettings& settings, double decay, Real w, Real p) {
  const auto wide = static_cast<double>(w);
  return decay != 0 && Decays(settings.cautious_decay, p, w) ? wide - decay * wide : wide;
}

// The intermediate results of a step. With update_floor_rows, they are for one row, otherwise for the whole tensor.
struct NormControlRow {
  NormSums sums;
  ControlledMove move;
  double moved_square = 0;  // |W1|^2 over the elements of `sums`; the CPU adds these numbers in row order
};

// Returns whether a step computes one NormControlRow for each row of a matrix.
constexpr bool ControlsRows(const GroupSettings& settings) {
  return settings.update_floor > 0 && settings.update_floor_rows;
}

// A step of norm_control and update_floor on one tensor. Sources: Hyperball optimization (MuonH) for
// norm_control=hyperball; the hooks of Emerging-Optimizers for norm_control=relative and norm_control=radial_brake; the
// record runs of modded-nanogpt for norm_control=radial and for update_floor.
//
// In this class, D is not the update of a grafting method. D = scale_ P - radial_ W, where radial_ is 0 unless
// norm_control is `radial`. update_floor may lengthen D. With update_floor_rows, each row is lengthened separately.
// Otherwise the whole tensor counts as one row. The step computes W1 = W - length D. The new parameter is Ratio() W1.
//
// Order of the calls: Add(), either for each row or once with the sums of the terms of all rows; MoveOf() for each row;
// Ratio(), after the caller has computed |W1|.
class NormControlStep {
 public:
  // total: the sums over the whole tensor. radius: the norm that norm_control=hyperball maintains. scale: the scale of
  // P.
  SHAMPOO_HD NormControlStep(const GroupSettings& settings, double lr, const NormSums& total, double radius,
                             const DirectionScale& scale)
      : settings_(settings), lr_(lr), norm_(std::sqrt(total.ww)), radius_(radius), scale_(scale.down * scale.up) {
    if (settings.norm_control != NormControl::kRadial || total.ww == 0) return;
    // A step along -D leads outward if D points inward.
    const double along = scale_ * total.pw / total.ww;
    radial_ = (1 - (along < 0 ? settings.radial_outward : settings.radial_inward)) * along;
  }

  // Return the terms that a row adds to |D|^2 and to <D, W>.
  SHAMPOO_HD double SquareTerm(const NormSums& row) const {
    const double floor = FloorOf(row);
    return floor * floor * SquareOf(row);
  }
  SHAMPOO_HD double ProductTerm(const NormSums& row) const {
    return FloorOf(row) * (scale_ * row.pw - radial_ * row.ww);
  }
  SHAMPOO_HD void Add(double square, double product) {
    square_ += square;
    product_ += product;
  }
  SHAMPOO_HD void Add(const NormSums& row) { Add(SquareTerm(row), ProductTerm(row)); }

  SHAMPOO_HD ControlledMove MoveOf(const NormSums& row) const {
    const double length = Length() * FloorOf(row);
    return {1 + length * radial_, length * scale_};
  }

  // Returns whether Ratio() uses |W1|.
  SHAMPOO_HD bool NeedsNorm() const {
    return settings_.norm_control == NormControl::kHyperball || settings_.norm_control == NormControl::kRadialBrake ||
           (settings_.norm_control == NormControl::kRadial && norm_ > 0);
  }

  // Returns the factor by which W1 is multiplied to get the new parameter. moved: |W1|; used only if NeedsNorm().
  SHAMPOO_HD double Ratio(double moved) const {
    if (!NeedsNorm() || !(moved > 0)) return 1;
    if (settings_.norm_control == NormControl::kHyperball) return radius_ / moved;
    if (settings_.norm_control == NormControl::kRadialBrake) {
      const double part = moved > norm_ ? settings_.radial_outward : settings_.radial_inward;
      return (norm_ + part * (moved - norm_)) / moved;
    }
    const double along = norm_ - lr_ * product_ / norm_;
    return along > 0 ? along / moved : 0;
  }

 private:
  // Returns |D|^2 of a row before update_floor.
  SHAMPOO_HD double SquareOf(const NormSums& row) const {
    const double square = scale_ * scale_ * row.pp - 2 * scale_ * radial_ * row.pw + radial_ * radial_ * row.ww;
    return square > 0 ? square : 0;
  }
  // Returns the factor, at least 1, by which update_floor lengthens D in a row.
  SHAMPOO_HD double FloorOf(const NormSums& row) const {
    const double square = SquareOf(row);
    if (settings_.update_floor == 0 || square == 0) return 1;
    const double floor = settings_.update_floor * std::sqrt(row.ww / square);
    return floor > 1 ? floor : 1;
  }
  // Returns `length`, the multiple of D that is subtracted from W.
  SHAMPOO_HD double Length() const {
    const bool is_relative = settings_.norm_control == NormControl::kRelative;
    if (!is_relative && settings_.norm_control != NormControl::kHyperball) return lr_;
    return square_ > 0 ? lr_ * (is_relative ? norm_ : radius_) / std::sqrt(square_) : 0;
  }

  const GroupSettings& settings_;
  double lr_;
  double norm_;  // |W|
  double radius_;
  double scale_;
  double radial_ = 0;
  double square_ = 0;   // |D|^2
  double product_ = 0;  // <D, W>
};

}  // namespace shampoo
