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

enum class Method { kShampoo, kSoap, kKlShampoo, kAdam, kAdagrad, kRmsprop, kSgd };
// Whether the method works in the eigenbases of its factor matrices.
constexpr bool UsesEigenbasis(Method method) { return method == Method::kSoap || method == Method::kKlShampoo; }
// Whether the update of an element depends only on the gradients of that element. Such a method has no factor matrices.
constexpr bool IsElementwise(Method method) { return method != Method::kShampoo && !UsesEigenbasis(method); }
enum class Grafting { kNone, kSgd, kAdagrad, kRmsprop, kAdam };
// Returns the grafting method with the direction of an elementwise method.
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
      break;
  }
  return Grafting::kNone;
}
// Whether the grafting method has a state: a second moment of the gradient.
constexpr bool HasMoment(Grafting grafting) { return grafting != Grafting::kNone && grafting != Grafting::kSgd; }
enum class WeightDecayType { kDecoupled, kCoupled, kIndependent, kPalm, kDecoupledAfter };
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
enum class NormControl { kNone, kHyperball };
// Choices of methods in eigenbases.
enum class BasisMethod { kEigen, kQr };
enum class BasisSort { kBefore, kAfter, kAscending, kNone };
enum class BasisTransport { kRotate, kPermute, kNone };
enum class BasisOrder { kAfter, kBefore };
enum class BasisInit { kEigen, kIdentity };
enum class FirstStep { kSkip, kUse };
enum class FactorStart { kZero, kFirst };
enum class FactorTerm { kGradient, kKl };  // the key factor_correction
enum class KlEigenvalues { kEma, kBasis };

// The keys of a group that the rules of a step (core/rules) read, checked and with every default resolved. Each field
// has the name of its key. The struct is trivially copyable, so that it can be copied to a device.
struct GroupSettings {
  double lr = 0;
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;                // 0 with root_relative_epsilon
  double root_relative_epsilon = 0;  // 0: the absolute epsilon is used
  double momentum = 0;
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
  double basis_tolerance = 0;
  double basis_epsilon = 0;
  double kl_init = 0;
  double kl_cap = 0;  // -1: auto, which depends on the dim; 0: no limit
  double update_norm_target = 0;
  double max_update_rms = 0;
  double norm_radius = 0;

  int64_t precondition_frequency = 0;
  int64_t start_preconditioning_step = 0;  // resolved: never -1
  int64_t root_order = 0;
  int64_t root_max_iterations = 0;
  int64_t root_async = 0;
  int64_t basis_iterations = 0;
  int64_t factor_update_frequency = 1;

  Method method = Method::kShampoo;
  Grafting grafting = Grafting::kNone;  // with an elementwise method: that method
  WeightDecayType weight_decay_type = WeightDecayType::kDecoupled;
  InitialInverse initial_inverse = InitialInverse::kIdentity;
  RootMethod root_method = RootMethod::kEigen;
  RankHandling root_rank_handling = RankHandling::kEpsilon;
  RootDevice root_device = RootDevice::kDevice;
  OnNonFinite on_nonfinite = OnNonFinite::kError;
  Output output = Output::kParameters;
  UpdateNorm update_norm = UpdateNorm::kNone;
  NormControl norm_control = NormControl::kNone;
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
};
static_assert(std::is_trivially_copyable_v<GroupSettings>);

// All hyper-parameters of one group.
struct Settings : GroupSettings {
  int64_t max_preconditioner_dim = 0;
  int64_t merge_min_dim = 0;
  int64_t skip_dim_size = 0;  // 0: no dim is skipped
  int64_t root_failure_tolerance = 0;
  int64_t threads = 0;            // 0: all processors that the process may use
  int64_t comm_bucket_bytes = 0;  // 0: one bucket
  int64_t verify_replicas = 0;    // 0: never
  int64_t checkpoint_keep = 0;
  int64_t status_lag = 0;

  bool use_merge_dims = false;
  bool precondition_1d = false;
  bool allow_stalled_moments = false;
  bool track_times = false;

  Communicate communicate = Communicate::kUpdates;
  Balance balance = Balance::kBytes;
  ShardMode shard_mode = ShardMode::kLocal;
  OnBlockMismatch on_block_mismatch = OnBlockMismatch::kError;
  PreconditionMath precondition_math = PreconditionMath::kF32;
  PreconditionDims precondition_dims = PreconditionDims::kAll;
  Route route = Route::kAuto;

  std::vector<int64_t> ignored_dims;           // pairs: order, dim
  std::vector<int64_t> inverse_root_override;  // one entry: for all orders; several: by order

  // No value means auto.
  std::optional<Dtype> computation_dtype;
  std::optional<Dtype> root_dtype;
  std::optional<Dtype> factor_dtype;
  std::optional<Dtype> inverse_dtype;
  std::optional<Dtype> filtered_grad_dtype;
  std::optional<Dtype> momentum_dtype;
  std::optional<Dtype> grafting_dtype;
  std::optional<Dtype> second_moment_dtype;
  std::optional<Dtype> communication_dtype;

  // Returns whether blocks have a second moment of the gradient, V.
  bool has_moment() const { return HasMoment(grafting); }
  // Returns whether a step uses norms of whole parameters.
  bool uses_norms() const {
    return update_norm != UpdateNorm::kNone || norm_control != NormControl::kNone || max_update_rms > 0;
  }
  // Returns the root r of a block with this number of factor matrices: 2 * factors (section 3 of the paper) unless
  // inverse_root_override has an entry for the number that is not 0.
  int64_t RootFor(int factors) const;

  // Returns the key whose larger values reduce the effect of the smallest eigenvalues of factor matrices.
  const char* EpsilonKey() const {
    if (root_rank_handling == RankHandling::kPseudoInverse) return "root_rank_rtol";
    return root_relative_epsilon > 0 ? "root_relative_epsilon" : "epsilon";
  }

  // Checks that every second moment that is stored in 16 bits can decrease, unless allow_stalled_moments is set.
  Status CheckMoments() const;
  // Checks that no number in the arithmetic of a step overflows or underflows when it is rounded to this dtype.
  Status CheckArithmetic(Dtype computation) const;
};

}  // namespace shampoo
