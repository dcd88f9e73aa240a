// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/status.h"

namespace shampoo {

enum class Method { kShampoo, kSoap, kKlShampoo, kMuon, kAdam, kAdagrad, kRmsprop, kSgd, kSign };
// Whether the method works in the eigenbases of its factor matrices.
constexpr bool UsesEigenbasis(Method method) { return method == Method::kSoap || method == Method::kKlShampoo; }
// Whether the update of an element depends only on the gradients of that element. Such a method has no factor matrices.
constexpr bool IsElementwise(Method method) {
  return method != Method::kShampoo && method != Method::kMuon && !UsesEigenbasis(method);
}
// Whether the method is steepest descent under a norm: its direction depends only on the filtered gradient.
constexpr bool IsSteepestDescent(Method method) { return method == Method::kMuon || method == Method::kSign; }
// Whether the method can take the length of its direction from a grafting method and does not use eigenbases. If so,
// StepScalars (core/rules/step_scalars.h) contains the scalars of the grafting method; otherwise, those of the method's
// own second moment. Method soap can also use a grafting method, whose scalars are in GraftingScalars
// (core/rules/basis.h).
constexpr bool GraftsDirection(Method method) { return method == Method::kShampoo || IsSteepestDescent(method); }
enum class Grafting { kNone, kSgd, kAdagrad, kRmsprop, kAdam };
// Returns the grafting method that has the same direction as an elementwise method. Returns kNone for method sign and
// for methods that are not elementwise.
constexpr Grafting GraftingOf(Method method) {
  switch (method) {
    case Method::kAdam:
      return Grafting::kAdam;
    case Method::kAdagrad:
      return Grafting::kAdagrad;
    case Method::kRmsprop:
      return Grafting::kRmsprop;
    case Method::kSgd:
      return Grafting::kSgd;
    case Method::kShampoo:
    case Method::kSoap:
    case Method::kKlShampoo:
    case Method::kMuon:
    case Method::kSign:
      break;
  }
  return Grafting::kNone;
}
// Whether the grafting method has a state: a second moment of the gradient.
constexpr bool HasMoment(Grafting grafting) { return grafting != Grafting::kNone && grafting != Grafting::kSgd; }

// Values of keys. Most of these types have the name of their key.
enum class WeightDecayType { kDecoupled, kCoupled, kIndependent, kPalm, kDecoupledAfter, kCorrected, kIndependentPeak };
enum class InitialInverse { kIdentity, kZero };
enum class RootMethod { kEigen, kNewton, kHigherOrder, kCans };
enum class RankHandling { kEpsilon, kPseudoInverse };
enum class RootDevice { kDevice, kHost };
enum class OnNonFinite { kError, kSkipBlock, kSkipStep };
enum class Output { kParameters, kUpdates };
enum class Communicate { kUpdates, kParams };
enum class Balance { kBytes, kCost };
enum class ShardMode { kLocal, kGather };
enum class OnBlockMismatch { kError, kReset };
enum class PreconditionMath { kF32, kTf32 };
enum class Route { kAuto, kOff };
enum class PreconditionDims { kAll, kSmaller, kLarger };
enum class UpdateNorm { kNone, kFrobenius, kRms };
enum class NormControl { kNone, kHyperball, kRelative, kRadialBrake, kRadial };
enum class Orthogonalization { kNewtonSchulz, kExact };
enum class NsNorm { kFrobenius, kSchatten4 };
enum class SoapPost { kNone, kOrthogonalize };
// The coefficients of the steps of a Newton-Schulz iteration (the key ns_coefficients): X <- a X + (b A + c A A) X with
// A = X X^T. If there are more steps than entries, the remaining steps use the last entry.
struct NsCoefficients {
  struct Entry {
    double a, b, c;
  };
  static constexpr int kMaxEntries = 16;
  Entry entries[kMaxEntries] = {};
  int count = 0;
  double divisor = 1;  // X is first divided by the product of its norm and this number
};
enum class MuonMath { kF32, kBf16 };
enum class Averaging { kNone, kGpa, kScheduleFree };
enum class Rounding { kNearest, kStochastic };
enum class ShapeScale { kNone, kMuon, kRmsAdam, kSpectral, kSqrtMax };
// The second moment of the direction with method muon (the key second_moment). It is a moving average of the squared
// elements (kElement), of their mean in each row (kRow), or (kShort) of their mean in each row if there are at least as
// many rows as columns, otherwise of their mean in each column.
enum class DirectionMoment { kNone, kRow, kShort, kElement };
// Values of keys of the methods in eigenbases, which are soap and kl_shampoo.
enum class BasisMethod { kEigen, kQr };
enum class BasisSort { kBefore, kAfter, kAscending, kNone };
enum class BasisTransport { kRotate, kPermute, kNone };
enum class BasisOrder { kAfter, kBefore };
enum class BasisInit { kEigen, kIdentity };
enum class FirstStep { kSkip, kUse };
enum class FactorStart { kZero, kFirst };
enum class FactorTerm { kGradient, kKl };  // the key factor_correction, which method shampoo has, too
enum class KlEigenvalues { kEma, kBasis };

// The keys of a group that the rules of a step (core/rules) read. The values are checked. The value auto is resolved,
// except in the fields whose comments give a number for auto. Each field has the name of its key, except
// direction_moment, whose key is second_moment. The struct is trivially copyable, so that it can be copied to a device.
struct GroupSettings {
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;                // 0 if root_relative_epsilon is used
  double root_relative_epsilon = 0;  // 0: the absolute epsilon is used
  double momentum = 0;
  double momentum_dampening = 0;
  double weight_decay = 0;
  double exponent_multiplier = 0;
  double grafting_beta2 = 0;
  double grafting_epsilon = 0;
  double gradient_scale = 0;
  double refresh_growth = 0;
  double root_tolerance = 0;
  double root_rank_rtol = 0;  // -1: auto, which depends on the matrix
  double root_rank_atol = 0;
  double shampoo_beta = 0;
  double relative_epsilon = 0;  // -1: auto, which depends on the computation dtype
  double inverse_exponent = 0;
  double trace_scaling = 0;  // 0: factor matrices are not scaled
  double basis_tolerance = 0;
  double basis_epsilon = 0;
  double kl_init = 0;  // -1: auto, from the first gradient that is not zero
  double kl_cap = 0;   // -1: auto, which depends on the dim; 0: no limit
  double update_norm_target = 0;
  double max_update_rms = 0;
  double norm_radius = 0;
  double radial_outward = 0;
  double radial_inward = 0;
  double update_floor = 0;
  double beta3 = -1;   // -1: auto, which depends on beta1 (Beta3Of in step_scalars.h)
  double peak_lr = 0;  // auto is resolved to lr
  double adam_lr = 0;  // with method muon: the blocks that method adam updates have the lr adam_lr * lr / peak_lr
  double adam_beta1 = 0;
  double adam_beta2 = 0;
  double adam_epsilon = 0;
  double average_eval = 0;
  double average_train = 0;
  double average_lr_power = 0;
  double weight_ema = 0;  // 0: no average

  int64_t precondition_frequency = 0;
  int64_t start_preconditioning_step = 0;  // at least 1: a step number has replaced -1 and 0
  int64_t root_order = 0;
  int64_t root_max_iterations = 0;
  int64_t root_async = 0;
  int64_t basis_iterations = 0;
  int64_t factor_update_frequency = 1;
  int64_t weight_ema_start = 0;

  Method method = Method::kShampoo;
  Grafting grafting = Grafting::kNone;  // with method adam, adagrad, rmsprop or sgd: GraftingOf(method)
  WeightDecayType weight_decay_type = WeightDecayType::kDecoupled;
  InitialInverse initial_inverse = InitialInverse::kIdentity;
  RootMethod root_method = RootMethod::kEigen;
  RankHandling root_rank_handling = RankHandling::kEpsilon;
  RootDevice root_device = RootDevice::kDevice;
  OnNonFinite on_nonfinite = OnNonFinite::kError;
  Output output = Output::kParameters;
  UpdateNorm update_norm = UpdateNorm::kNone;
  NormControl norm_control = NormControl::kNone;
  ShapeScale shape_scale = ShapeScale::kNone;
  DirectionMoment direction_moment = DirectionMoment::kNone;
  SoapPost soap_post = SoapPost::kNone;
  Orthogonalization orthogonalization = Orthogonalization::kNewtonSchulz;
  MuonMath muon_math = MuonMath::kF32;
  Averaging averaging = Averaging::kNone;
  BasisMethod basis_method = BasisMethod::kEigen;
  BasisSort basis_sort = BasisSort::kBefore;
  BasisTransport basis_transport = BasisTransport::kRotate;
  BasisOrder basis_order = BasisOrder::kAfter;
  BasisInit basis_init = BasisInit::kEigen;
  FirstStep first_step = FirstStep::kSkip;
  FactorStart factor_start = FactorStart::kZero;
  FactorTerm factor_correction = FactorTerm::kGradient;  // kKl with method kl_shampoo
  KlEigenvalues kl_eigenvalues = KlEigenvalues::kEma;

  bool use_nesterov = false;
  bool use_bias_correction = false;
  bool root_spread = false;
  bool track_root_residuals = false;
  bool drop_weighting = false;
  bool count_empty_steps = false;
  bool row_sum_epsilon = false;
  bool cautious_decay = false;
  bool dual_norm_scale = false;
  bool update_floor_rows = false;

  // Returns whether a step controls the norm of a tensor (norm_control), or scales a direction up if its norm is too
  // small relative to the norm of the tensor (update_floor).
  constexpr bool controls_norm() const { return norm_control != NormControl::kNone || update_floor > 0; }
  // Returns whether a step uses norms of whole tensors, because of a key in kNormKeys. With method shampoo, grafting
  // uses norms of blocks instead.
  constexpr bool uses_norms() const {
    return update_norm != UpdateNorm::kNone || max_update_rms > 0 || controls_norm() || dual_norm_scale ||
           soap_post != SoapPost::kNone || (method == Method::kSign && grafting != Grafting::kNone);
  }
};
// For error messages: the keys that require each tensor to be a single block.
inline constexpr const char* kNormKeys =
    "update_norm, max_update_rms, norm_control, update_floor, dual_norm_scale, soap_post, or grafting with "
    "method=sign";
static_assert(std::is_trivially_copyable_v<GroupSettings>);

// Returns the settings of the blocks that method adam updates in a group of method muon (Block::is_routed). The lr of
// these blocks is adam_lr, multiplied by lr / peak_lr of the group.
constexpr GroupSettings RoutedSettings(const GroupSettings& group) {
  GroupSettings routed = group;
  routed.method = Method::kAdam;
  routed.grafting = Grafting::kAdam;
  routed.lr = group.adam_lr * (group.lr / group.peak_lr);
  routed.peak_lr = group.adam_lr > 0 ? group.adam_lr : group.peak_lr;  // two types of weight decay divide by peak_lr
  routed.beta1 = group.adam_beta1;
  routed.beta2 = group.adam_beta2;
  routed.beta3 = -1;
  routed.epsilon = group.adam_epsilon;
  routed.use_nesterov = false;
  routed.start_preconditioning_step = 1;
  routed.direction_moment = DirectionMoment::kNone;
  routed.dual_norm_scale = false;
  routed.update_norm = UpdateNorm::kNone;
  routed.max_update_rms = 0;
  routed.shape_scale = ShapeScale::kNone;
  routed.norm_control = NormControl::kNone;
  routed.update_floor = 0;
  return routed;
}

// All hyper-parameters of one group.
struct Settings : GroupSettings {
  int64_t max_preconditioner_dim = 0;
  int64_t merge_min_dim = 0;
  int64_t skip_dim_size = 0;  // 0: no dim is skipped
  int64_t root_failure_tolerance = 0;
  int64_t threads = 0;            // 0: at most one for each processor that the process may use
  int64_t comm_bucket_bytes = 0;  // 0: one bucket
  int64_t verify_replicas = 0;    // 0: never
  int64_t checkpoint_keep = 0;
  int64_t status_lag = 0;

  int64_t rounding_seed = 0;

  bool use_merge_dims = false;
  bool precondition_1d = false;
  bool allow_stalled_moments = false;
  bool muon_local = false;
  bool track_times = false;

  Communicate communicate = Communicate::kUpdates;
  Balance balance = Balance::kBytes;
  ShardMode shard_mode = ShardMode::kLocal;
  OnBlockMismatch on_block_mismatch = OnBlockMismatch::kError;
  PreconditionMath precondition_math = PreconditionMath::kF32;
  NsNorm ns_norm = NsNorm::kFrobenius;
  NsCoefficients ns_coefficients;
  int64_t ns_steps = 0;
  Rounding state_rounding = Rounding::kNearest;
  Rounding param_rounding = Rounding::kNearest;
  PreconditionDims precondition_dims = PreconditionDims::kAll;
  Route route = Route::kAuto;

  std::vector<int64_t> ignored_dims;           // pairs of an order and a dim
  std::vector<int64_t> inverse_root_override;  // see RootFor()

  bool rounds_stochastically() const {
    return state_rounding == Rounding::kStochastic || param_rounding == Rounding::kStochastic;
  }

  // In the fields below, std::nullopt means auto.
  std::optional<Dtype> computation_dtype;
  std::optional<Dtype> root_dtype;
  std::optional<Dtype> factor_dtype;
  std::optional<Dtype> inverse_dtype;
  std::optional<Dtype> filtered_grad_dtype;
  std::optional<Dtype> momentum_dtype;
  std::optional<Dtype> grafting_dtype;
  std::optional<Dtype> second_moment_dtype;
  std::optional<Dtype> average_dtype;
  std::optional<Dtype> communication_dtype;

  // Returns whether the grafting method, or the elementwise method, has a second moment of the gradient, V.
  bool has_moment() const { return HasMoment(grafting); }
  // Returns the r of the inverse roots F_k^(-exponent_multiplier / r) of a block with this number of factor matrices. r
  // is the only entry of inverse_root_override or, if there are several, the entry with index `factors`, counted from
  // 0. If this entry is 0 or does not exist, r is 2 * factors, as in the original Shampoo.
  int64_t RootFor(int factors) const;

  // Returns the key whose larger values reduce the effect of the smallest eigenvalues of factor matrices.
  const char* EpsilonKey() const {
    if (root_rank_handling == RankHandling::kPseudoInverse) return "root_rank_rtol";
    return root_relative_epsilon > 0 ? "root_relative_epsilon" : "epsilon";
  }

  // Returns these settings, with the fields of GroupSettings replaced by the result of RoutedSettings().
  Settings Routed() const {
    Settings routed = *this;
    static_cast<GroupSettings&>(routed) = RoutedSettings(*this);
    return routed;
  }

  // Checks the moving averages that the state stores in 16 bits: factor matrices, second moments, and averages of the
  // parameters. Returns an error if rounding would undo each decrease of such an average. If allow_stalled_moments is
  // set, checks nothing. beta2_key: the name of the key that sets beta2, for the error message.
  Status CheckMoments(const char* beta2_key = "beta2") const;
  // Checks the values of all keys with Key::arithmetic: no value may overflow or underflow when a step rounds it to
  // this dtype.
  Status CheckArithmetic(Dtype computation) const;
};

}  // namespace shampoo
