// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Config::Resolve: the checks that involve several keys, and the defaults that depend on other keys.
#include <string>
#include <utility>

#include "core/base/text.h"
#include "core/config/config.h"

namespace shampoo {
namespace {

// Checks that root_method supports the values of exponent_multiplier and root_rank_handling, and that epsilon and
// root_relative_epsilon are 0 with root_rank_handling=pseudo_inverse.
Status CheckRootMethod(const Settings& settings) {
  const bool pseudo_inverse = settings.root_rank_handling == RankHandling::kPseudoInverse;
  if (settings.root_method != RootMethod::kEigen) {
    const bool is_cans = settings.root_method == RootMethod::kCans;
    const bool is_newton = settings.root_method == RootMethod::kNewton;
    const char* const method = is_cans ? "cans" : is_newton ? "newton" : "higher_order";
    if (settings.exponent_multiplier != 1 && !is_cans) {
      return Invalid("key exponent_multiplier: the value ", settings.exponent_multiplier,
                     " is not allowed with root_method=", method,
                     ": expected 1; set r of the exponent -1/r with inverse_root_override, or set root_method=eigen");
    }
    if (pseudo_inverse) {
      return Invalid("key root_rank_handling: the value pseudo_inverse is not allowed with root_method=", method,
                     ", which computes no eigenvalues: expected root_method=eigen");
    }
  }
  if (pseudo_inverse && settings.epsilon != 0) {
    return Invalid("key epsilon: the value ", settings.epsilon,
                   " is not allowed with root_rank_handling=pseudo_inverse, which adds no epsilon: expected 0");
  }
  if (pseudo_inverse && settings.root_relative_epsilon != 0) {
    return Invalid("key root_relative_epsilon: the value ", settings.root_relative_epsilon,
                   " is not allowed with root_rank_handling=pseudo_inverse, which adds no epsilon: expected 0");
  }
  return {};
}

Status CheckDecay(const Settings& settings) {
  const bool is_after = settings.weight_decay_type == WeightDecayType::kDecoupledAfter;
  if (is_after && !UsesEigenbasis(settings.method)) {
    return Invalid(
        "key weight_decay_type: the value decoupled_after is not allowed with method=", NameOf(settings.method),
        ": expected decoupled. The updates of the two types differ only by lr^2 * weight_decay times the "
        "direction");
  }
  if ((settings.weight_decay_type != WeightDecayType::kIndependent && !is_after) || settings.momentum == 0) return {};
  return Invalid("key momentum: the value ", settings.momentum,
                 " is not allowed with weight_decay_type=", is_after ? "decoupled_after" : "independent",
                 ", whose decay is not part of the direction that momentum accumulates: expected momentum=0, or "
                 "another weight_decay_type, such as decoupled");
}

Status CheckDampening(const Settings& settings) {
  if (settings.momentum_dampening == 0 || settings.momentum != 0) return {};
  return Invalid("key momentum_dampening: the value ", settings.momentum_dampening,
                 " is not allowed with momentum=0, because there is no momentum to dampen: expected 0, or a momentum "
                 "above 0");
}

// Checks that norm_control, update_floor and cautious_decay are not combined with keys that they exclude.
Status CheckNorms(const Settings& settings) {
  const bool controls_norm = settings.controls_norm();
  if (settings.momentum != 0 && (controls_norm || settings.cautious_decay)) {
    return Invalid("key momentum: the value ", settings.momentum,
                   " is not allowed with norm_control, update_floor or cautious_decay, which replace the update that "
                   "momentum would accumulate: expected momentum=0, or norm_control=none, update_floor=0 and "
                   "cautious_decay=false");
  }
  const bool is_coupled = settings.weight_decay_type == WeightDecayType::kCoupled;
  if (settings.weight_decay_type == WeightDecayType::kDecoupledAfter || (is_coupled && settings.cautious_decay)) {
    if (!controls_norm && !settings.cautious_decay) return {};
    return Invalid("key weight_decay_type: the value ", is_coupled ? "coupled" : "decoupled_after",
                   " is not allowed with ", settings.cautious_decay ? "cautious_decay" : "norm_control or update_floor",
                   ": expected another weight_decay_type, such as decoupled");
  }
  return {};
}

// Checks that averaging is not combined with keys that it excludes, such as momentum and weight_ema.
Status CheckAverages(const Settings& settings) {
  if (settings.averaging == Averaging::kNone) return {};
  const char* const name = settings.averaging == Averaging::kGpa ? "gpa" : "schedule_free";
  const auto reject = [name](const char* with, const char* reason, const char* expected) {
    return Invalid("key averaging: the value ", name, " is not allowed with ", with, ", ", reason,
                   ": expected averaging=none, or ", expected);
  };
  if (settings.momentum != 0) {
    return reject("momentum", "because the average of iterates replaces momentum", "momentum=0");
  }
  if (settings.controls_norm()) {
    return reject("norm_control or update_floor",
                  "because these keys use the norm of the parameter, but a step changes the newest iterate instead",
                  "norm_control=none and update_floor=0");
  }
  if (settings.cautious_decay) {
    return reject("cautious_decay", "because the newest iterate decays instead of the parameter",
                  "cautious_decay=false");
  }
  if (settings.weight_decay_type == WeightDecayType::kDecoupledAfter) {
    return reject("weight_decay_type=decoupled_after", "because the newest iterate decays instead of the parameter",
                  "weight_decay_type=decoupled");
  }
  if (settings.weight_ema != 0) {
    return reject("weight_ema", "because only one average can be exported", "weight_ema=0");
  }
  return {};
}

class Resolver {
 public:
  explicit Resolver(const Config& config)
      : config_(config), method_(static_cast<Method>(ValueOf(*FindKey("method")).integer)) {}

  Status Run(Settings* settings);

 private:
  const Value& ValueOf(const Key& key) const { return config_.ValueOf(key); }
  bool IsAuto(const char* name) const { return ValueOf(*FindKey(name)).is_auto; }
  // Returns whether the user has set the key to a value other than auto.
  bool IsSet(const char* name) const { return config_.IsSet(*FindKey(name)) && !IsAuto(name); }

  Status CheckMethod() const;
  Status TakeValues();
  Status ResolveIgnoredDims();
  Status ResolveFilter();
  Status ResolveShampoo();
  Status ResolveDirection();
  Status ResolveBasis();
  void ResolveElementwise();
  void ResolveGrafting();
  Status ResolveEpsilon();
  Status ResolveSchedule();

  const Config& config_;
  const Method method_;
  Settings settings_;
};

// Fails if the user has set a key that the method does not read. A value that equals Key::default_text or Key::off_text
// is allowed. Keys that were set in the config from which this config was copied are not checked.
Status Resolver::CheckMethod() const {
  for (const Key& key : Keys()) {
    const std::string& text = ValueOf(key).text;
    const bool is_off = text == key.default_text || (key.off_text != nullptr && text == key.off_text);
    if (Reads(method_, key) || !config_.IsOwn(key) || is_off) continue;
    return RejectUnread(method_, key, ValueOf(key).text);
  }
  return {};
}

Status Resolver::Run(Settings* settings) {
  SHAMPOO_RETURN_IF_ERROR(CheckMethod());
  SHAMPOO_RETURN_IF_ERROR(TakeValues());
  SHAMPOO_RETURN_IF_ERROR(CheckDecay(settings_));
  SHAMPOO_RETURN_IF_ERROR(CheckDampening(settings_));
  SHAMPOO_RETURN_IF_ERROR(CheckNorms(settings_));
  SHAMPOO_RETURN_IF_ERROR(CheckAverages(settings_));
  SHAMPOO_RETURN_IF_ERROR(ResolveIgnoredDims());
  SHAMPOO_RETURN_IF_ERROR(ResolveFilter());
  if (method_ == Method::kShampoo) {
    SHAMPOO_RETURN_IF_ERROR(ResolveShampoo());
  } else if (IsSteepestDescent(method_)) {
    SHAMPOO_RETURN_IF_ERROR(ResolveDirection());
  } else if (UsesEigenbasis(method_)) {
    SHAMPOO_RETURN_IF_ERROR(ResolveBasis());
  } else {
    ResolveElementwise();
  }
  SHAMPOO_RETURN_IF_ERROR(settings_.CheckMoments());
  *settings = std::move(settings_);
  return {};
}

// Copies the values of the keys that the method reads. Other keys get their defaults, because their values may be
// inherited from a config with another method.
Status Resolver::TakeValues() {
  for (const Key& key : Keys()) {
    Value value = ValueOf(key);
    if (!Reads(method_, key)) SHAMPOO_RETURN_IF_ERROR(ParseValue(key, key.default_text, &value));
    if (key.number != nullptr) settings_.*key.number = value.number;
    if (key.integer != nullptr) settings_.*key.integer = value.integer;
    if (key.flag != nullptr) settings_.*key.flag = value.integer != 0;
    if (key.choose != nullptr) key.choose(&settings_, value.integer);
    if (key.parse != nullptr) (void)key.parse(value.text, &settings_, &value.text);  // checked by ParseValue()
    if (key.dtype != nullptr && !value.is_auto) {
      Dtype dtype;
      if (FloatDtypeFromName(value.text, &dtype)) settings_.*key.dtype = dtype;
    }
  }
  return {};
}

Status Resolver::ResolveShampoo() {
  const Key& override_key = *FindKey("inverse_root_override");
  SHAMPOO_RETURN_IF_ERROR(ParseList(override_key, ValueOf(override_key).text, &settings_.inverse_root_override));
  ResolveGrafting();
  if (IsAuto("root_rank_rtol")) settings_.root_rank_rtol = -1;
  if (settings_.skip_dim_size > 0 && settings_.grafting == Grafting::kNone) {
    return Invalid("key skip_dim_size: the value ", settings_.skip_dim_size,
                   " is not allowed with grafting=none, because only grafting updates tensors whose dimensions are all "
                   "skipped: expected skip_dim_size=0, or another value of grafting");
  }
  if (settings_.factor_correction == FactorTerm::kKl && settings_.initial_inverse == InitialInverse::kZero) {
    return Invalid(
        "key factor_correction: the value kl is not allowed with initial_inverse=zero, which would keep the factor "
        "matrices at zero: expected initial_inverse=identity, or factor_correction=none");
  }
  SHAMPOO_RETURN_IF_ERROR(ResolveEpsilon());
  if (settings_.row_sum_epsilon && settings_.root_method != RootMethod::kHigherOrder) {
    return Invalid(
        "key row_sum_epsilon: the value true is not allowed, because only root_method=higher_order reads this key: "
        "expected false, or root_method=higher_order");
  }
  SHAMPOO_RETURN_IF_ERROR(CheckRootMethod(settings_));
  return ResolveSchedule();
}

// Resolves the defaults of an elementwise method, whose direction is that of the grafting method of the same name. Keys
// that the method does not read get values that have no effect.
void Resolver::ResolveElementwise() {
  settings_.grafting = GraftingOf(settings_.method);
  if (settings_.method == Method::kAdagrad) settings_.beta2 = 1;  // V is an unweighted sum
  if (IsAuto("epsilon")) settings_.epsilon = settings_.method == Method::kAdagrad ? 1e-10 : 1e-8;
  settings_.root_relative_epsilon = 0;
  settings_.start_preconditioning_step = 1;
  settings_.inverse_root_override = {0};
}

// Resolves beta3 and peak_lr.
Status Resolver::ResolveFilter() {
  const Key& beta3 = *FindKey("beta3");
  if (!Reads(settings_.method, beta3) || ValueOf(beta3).is_auto) {
    settings_.beta3 = -1;
  } else if (settings_.beta1 == 0) {
    return Invalid("key beta3: the value ", settings_.beta3,
                   " is not allowed with beta1=0, because no average of gradients is then stored: expected auto, or a "
                   "beta1 above 0");
  } else if (settings_.method == Method::kMuon && IsSet("use_nesterov") && settings_.use_nesterov) {
    return Invalid("key beta3: the value ", settings_.beta3,
                   " is not allowed with use_nesterov=true, which sets beta3 to beta1^2: expected beta3=auto, or "
                   "use_nesterov=false");
  }
  if (IsAuto("peak_lr")) settings_.peak_lr = settings_.lr;
  const bool decays_by_peak = settings_.weight_decay_type == WeightDecayType::kCorrected ||
                              settings_.weight_decay_type == WeightDecayType::kIndependentPeak;
  const bool routes_by_peak = settings_.method == Method::kMuon && settings_.route == Route::kAuto;
  if (settings_.peak_lr > 0 || !(decays_by_peak || routes_by_peak)) return {};
  return Invalid("key peak_lr: the value auto means lr, which is 0, and peak_lr=0 is not allowed with ",
                 decays_by_peak ? "weight_decay_type=corrected or weight_decay_type=independent_peak" : "method=muon",
                 ": expected the largest learning rate of the schedule");
}

// Resolves the defaults of methods muon and sign, and checks their keys. The direction of both methods depends only on
// the filtered gradient. Keys that the selected method does not read get values that have no effect.
Status Resolver::ResolveDirection() {
  ResolveGrafting();
  settings_.root_relative_epsilon = 0;
  settings_.precondition_frequency = 1;
  settings_.refresh_growth = 0;
  settings_.inverse_root_override = {0};
  int64_t& start = settings_.start_preconditioning_step;
  if (start < 1) start = 1;
  if (start > 1 && settings_.grafting == Grafting::kNone) {
    return Invalid("key start_preconditioning_step: the value ", start,
                   " is not allowed with method=", NameOf(settings_.method),
                   " and grafting=none, because earlier steps would use the update of the grafting method: expected "
                   "at most 1, or another value of grafting");
  }
  if (settings_.dual_norm_scale && settings_.direction_moment != DirectionMoment::kNone) {
    return Invalid(
        "key dual_norm_scale: the value true is not allowed with second_moment, which changes the length that "
        "dual_norm_scale scales: expected false, or second_moment=none");
  }
  if (settings_.method == Method::kMuon) {
    if (IsAuto("epsilon")) settings_.epsilon = 1e-8;
    SHAMPOO_RETURN_IF_ERROR(settings_.Routed().CheckMoments("adam_beta2"));
  }
  return {};
}

void Resolver::ResolveGrafting() {
  if (IsAuto("grafting_beta2")) {
    settings_.grafting_beta2 = settings_.grafting == Grafting::kRmsprop ? 0.99 : 0.999;
  }
  // The second moment of Adagrad is an unweighted sum. A decay of 1 turns the moving average of the other methods into
  // this sum.
  if (settings_.grafting == Grafting::kAdagrad) settings_.grafting_beta2 = 1.0;
  if (IsAuto("grafting_epsilon")) {
    settings_.grafting_epsilon = settings_.grafting == Grafting::kAdagrad ? 1e-10 : 1e-8;
  }
}

Status Resolver::ResolveIgnoredDims() {
  const Key& key = *FindKey("ignored_dims");
  const std::string& text = Reads(settings_.method, key) ? ValueOf(key).text : key.default_text;
  if (text == key.default_text) return {};
  SHAMPOO_RETURN_IF_ERROR(ParseList(key, text, &settings_.ignored_dims));
  if (settings_.ignored_dims.size() % 2 == 0) return {};
  return Invalid(
      "key ignored_dims: the value ", text,
      " is not allowed: expected 0, or pairs of an order and a dim, such as 2,1 for dim 1 of blocks of order 2");
}

// Resolves the defaults of methods soap and kl_shampoo, and checks their keys.
Status Resolver::ResolveBasis() {
  if (settings_.method == Method::kKlShampoo) settings_.grafting = Grafting::kNone;
  ResolveGrafting();
  settings_.root_relative_epsilon = 0;
  settings_.refresh_growth = 0;
  settings_.inverse_root_override = {0};
  if (settings_.method == Method::kKlShampoo) settings_.factor_correction = FactorTerm::kKl;
  if (IsAuto("epsilon")) settings_.epsilon = 1e-12;
  if (IsAuto("shampoo_beta")) settings_.shampoo_beta = settings_.beta2;
  if (IsAuto("relative_epsilon")) settings_.relative_epsilon = -1;
  if (settings_.method == Method::kKlShampoo) settings_.relative_epsilon = 0;
  if (IsAuto("kl_cap")) settings_.kl_cap = -1;
  if (IsAuto("kl_init")) settings_.kl_init = settings_.basis_order == BasisOrder::kBefore ? 0.1 : -1;
  if (settings_.kl_init < 0 && settings_.kl_cap == 0 && settings_.factor_correction == FactorTerm::kKl) {
    return Invalid(
        "key kl_cap: the value 0 is not allowed with kl_init=auto, which lets an eigenvalue be 0: expected a "
        "kl_cap that is auto or above 0, or a kl_init that is a number, such as 0.1");
  }
  const bool orthogonalizes = settings_.soap_post == SoapPost::kOrthogonalize;
  if (orthogonalizes && !config_.IsSet(*FindKey("shape_scale"))) settings_.shape_scale = ShapeScale::kMuon;

  const bool is_before = settings_.basis_order == BasisOrder::kBefore;
  // kOnlyBefore lists the keys that are read only with basis_order=before, and kOnlyAfter those that are read only with
  // basis_order=after. If a key is not read, it must have the value that is listed here.
  constexpr Default kOnlyBefore[] = {
      {"start_preconditioning_step", "-1"}, {"basis_init", "eigen"}, {"grafting", "none"}};
  constexpr Default kOnlyAfter[] = {{"first_step", "skip"}, {"factor_start", "zero"}};
  for (const auto& [name, off] : is_before ? std::span<const Default>(kOnlyAfter) : kOnlyBefore) {
    const Key& key = *FindKey(name);
    if (!Reads(settings_.method, key) || ValueOf(key).text == off) continue;
    return Invalid("key ", name, ": the value ", ValueOf(key).text,
                   " is not allowed with basis_order=", is_before ? "before" : "after",
                   ", which does not read this key: expected ", off,
                   ", or basis_order=", is_before ? "after" : "before");
  }
  if (settings_.kl_eigenvalues == KlEigenvalues::kBasis && !is_before) {
    return Invalid(
        "key kl_eigenvalues: the value basis is not allowed with basis_order=after: expected ema, or "
        "basis_order=before");
  }
  for (const auto& [name, dtype] : {std::pair("filtered_grad_dtype", settings_.filtered_grad_dtype),
                                    std::pair("second_moment_dtype", settings_.second_moment_dtype)}) {
    if (dtype != Dtype::kF16) continue;
    return Invalid(
        "key ", name, ": the value f16 is not allowed with method=", NameOf(settings_.method),
        ", because a rotation may enlarge elements beyond the range of f16: expected auto, f32, f64 or bf16");
  }
  int64_t& start = settings_.start_preconditioning_step;
  if (start < 1) start = start == -1 ? settings_.precondition_frequency : 1;
  return {};
}

// If the user has set root_relative_epsilon to a number above 0, sets epsilon to 0. Otherwise, if the user has set
// epsilon, sets root_relative_epsilon to 0. Otherwise, with root_rank_handling=pseudo_inverse, sets both keys to 0.
Status Resolver::ResolveEpsilon() {
  const bool relative_is_set = IsSet("root_relative_epsilon") && settings_.root_relative_epsilon != 0;
  if (relative_is_set && IsSet("epsilon") && settings_.epsilon != 0) {
    return Invalid("keys epsilon and root_relative_epsilon: the values ", settings_.epsilon, " and ",
                   settings_.root_relative_epsilon,
                   " are both set: expected one of them; leave the other one out, or set it to 0");
  }
  if (relative_is_set) {
    settings_.epsilon = 0;
  } else if (IsSet("epsilon") || settings_.root_rank_handling == RankHandling::kPseudoInverse) {
    settings_.root_relative_epsilon = 0;
    if (!IsSet("epsilon")) settings_.epsilon = 0;
  }
  return {};
}

Status Resolver::ResolveSchedule() {
  const int64_t frequency = settings_.precondition_frequency;
  const bool grows = settings_.refresh_growth > 0;
  int64_t& start = settings_.start_preconditioning_step;
  if (start == -1) start = grows ? 1 : frequency;
  if (start == 0 && (grows || frequency == 1)) start = 1;
  if (start < frequency && !grows) {
    return Invalid(
        "start_preconditioning_step is ", start, " and precondition_frequency is ", frequency,
        ": with refresh_growth=0 the start must be at least the frequency; set the start to -1 (the same as the "
        "frequency) or to at least ",
        frequency, ", or set refresh_growth above 0");
  }
  if (settings_.root_async >= frequency) {
    return Invalid("root_async is ", settings_.root_async, " and precondition_frequency is ", frequency,
                   ": expected a root_async below ", frequency,
                   ", because inverse roots must be in use before the next ones are computed");
  }
  return {};
}

}  // namespace

Status Config::Resolve(Settings* settings) const { return Resolver(*this).Run(settings); }

int64_t Settings::RootFor(int factors) const {
  const size_t index = inverse_root_override.size() == 1 ? 0 : static_cast<size_t>(factors);
  const int64_t chosen = index < inverse_root_override.size() ? inverse_root_override[index] : 0;
  return chosen == 0 ? 2 * int64_t{factors} : chosen;
}

}  // namespace shampoo
