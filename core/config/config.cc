// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/config.h"

#include <span>
#include <utility>

#include "core/base/text.h"
#include "core/config/nearest_name.h"

namespace shampoo {
namespace {

// A name that other optimizers use for a key.
struct Alias {
  std::string_view name;
  const char* keys;
};
constexpr Alias kAliases[] = {
    {"learning_rate", "lr"},
    {"step_size", "lr"},
    {"betas", "beta1, and grafting_beta2 (of the grafting method) or beta2 (of the factor matrices)"},
    {"b1", "beta1"},
    {"b2", "grafting_beta2 (of the grafting method) or beta2 (of the factor matrices)"},
    {"stats_decay", "beta2"},
    {"eps", "grafting_epsilon (of the grafting method) or epsilon (of the inverse roots)"},
    {"matrix_eps", "epsilon"},
    {"matrix_epsilon", "epsilon"},
    {"diagonal_eps", "grafting_epsilon"},
    {"diagonal_epsilon", "grafting_epsilon"},
    {"nesterov", "use_nesterov"},
    {"wd", "weight_decay"},
    {"decoupled_weight_decay", "weight_decay_type"},
    {"use_decoupled_weight_decay", "weight_decay_type"},
    {"weight_decouple", "weight_decay_type"},
    {"mask", "a parameter group of its own"},
    {"mu_dtype", "filtered_grad_dtype"},
    {"preconditioner_dtype", "factor_dtype"},
    {"block_size", "max_preconditioner_dim"},
    {"max_precond_dim", "max_preconditioner_dim"},
    {"merge_dims", "use_merge_dims"},
    {"shape_interpretation", "use_merge_dims"},
    {"best_effort_shape_interpretation", "use_merge_dims"},
    {"update_freq", "precondition_frequency"},
    {"update_frequency", "precondition_frequency"},
    {"precond_freq", "precondition_frequency"},
    {"precond_frequency", "precondition_frequency"},
    {"precondition_every", "precondition_frequency"},
    {"preconditioning_compute_steps", "precondition_frequency"},
    {"statistics_compute_steps", "factor_update_frequency"},
    {"root_inv_method", "root_method"},
    {"inv_root_override", "inverse_root_override"},
    {"exponent_override", "inverse_root_override"},
    {"inverse_exponent_override", "inverse_root_override"},
    {"inverse_failure_threshold", "root_failure_tolerance"},
    {"track_root_inv_residuals", "track_root_residuals"},
    {"graft_type", "grafting"},
    {"grafting_type", "grafting"},
    {"grafting_config", "grafting"},
    {"bias_correction", "use_bias_correction"},
    {"correct_bias", "use_bias_correction"},
    {"communicate_params", "communicate"},
    {"num_threads", "threads"},
};

// An option of other optimizers for which there is no key.
struct AbsentOption {
  std::string_view name;
  const char* advice;
};
constexpr AbsentOption kAbsentOptions[] = {
    {"maximize", "pass gradients with the opposite sign"},
    {"amsgrad", "it is not supported; leave it out"},
};

Status UnknownKey(std::string_view name) {
  const std::string folded = FoldName(name);
  for (const Alias& alias : kAliases) {
    if (folded == alias.name) return Invalid("there is no key \"", name, "\": use ", alias.keys);
  }
  for (const AbsentOption& option : kAbsentOptions) {
    if (folded == option.name) return Invalid("there is no key \"", name, "\": ", option.advice);
  }
  NearestName nearest(name);
  for (const Key& key : Keys()) nearest.Consider(key.name);
  return Invalid("there is no key \"", name, "\"",
                 nearest.found() == nullptr ? ";" : Cat(": did you mean ", nearest.found(), "?"),
                 " shampoo_config_describe_key lists all keys, as does docs/keys.md");
}

// Checks that the root method supports the other keys of inverse roots.
Status CheckRootMethod(const Settings& settings) {
  const bool pseudo_inverse = settings.root_rank_handling == RankHandling::kPseudoInverse;
  if (settings.root_method != RootMethod::kEigen) {
    const bool is_cans = settings.root_method == RootMethod::kCans;
    const bool is_newton = settings.root_method == RootMethod::kNewton;
    const char* const method = is_cans ? "cans" : is_newton ? "newton" : "higher_order";
    if (settings.exponent_multiplier != 1 && !is_cans) {
      return Invalid("key exponent_multiplier: the value ", settings.exponent_multiplier,
                     " is not allowed with root_method ", method, ", which computes only exponents of the form ",
                     is_newton ? "-1/p with an integer p" : "-q/p with integers q and p",
                     ": expected 1; use inverse_root_override, or root_method eigen");
    }
    if (pseudo_inverse) {
      return Invalid("key root_rank_handling: the value pseudo_inverse is not allowed with root_method ", method,
                     ", which computes no eigenvalues: expected root_method eigen");
    }
  }
  if (pseudo_inverse && settings.epsilon != 0) {
    return Invalid("key epsilon: the value ", settings.epsilon,
                   " is not allowed with root_rank_handling pseudo_inverse, which adds no epsilon: expected 0");
  }
  if (pseudo_inverse && settings.root_relative_epsilon != 0) {
    return Invalid("key root_relative_epsilon: the value ", settings.root_relative_epsilon,
                   " is not allowed with root_rank_handling pseudo_inverse, which adds no epsilon: expected 0");
  }
  return {};
}

Status CheckDecay(const Settings& settings) {
  const bool is_after = settings.weight_decay_type == WeightDecayType::kDecoupledAfter;
  if (is_after && !UsesEigenbasis(settings.method)) {
    return Invalid("key weight_decay_type: the value decoupled_after is not allowed with method ",
                   NameOf(settings.method),
                   ": expected decoupled, which differs only by lr^2 * weight_decay times the "
                   "direction");
  }
  if ((settings.weight_decay_type != WeightDecayType::kIndependent && !is_after) || settings.momentum == 0) return {};
  return Invalid("key momentum: the value ", settings.momentum, " is not allowed with weight_decay_type ",
                 is_after ? "decoupled_after" : "independent",
                 ", because momentum would apply the decay of a step again in later steps: expected momentum 0, or "
                 "another weight_decay_type");
}

Status CheckNorms(const Settings& settings) {
  if (settings.norm_control == NormControl::kNone) return {};
  if (settings.momentum != 0) {
    return Invalid("key momentum: the value ", settings.momentum,
                   " is not allowed with norm_control hyperball, which replaces the update that momentum would "
                   "accumulate: expected momentum 0, or norm_control none");
  }
  if (settings.weight_decay_type == WeightDecayType::kDecoupledAfter) {
    return Invalid(
        "key weight_decay_type: the value decoupled_after is not allowed with norm_control hyperball: "
        "expected decoupled");
  }
  return {};
}

}  // namespace

Config::Config() : values_(Keys().size()), sources_(Keys().size(), Source::kDefault) {
  for (const Key& key : Keys()) TakeText(key, key.default_text);
  ApplyDefaults();
}

// text: passes the check of the key. A test asserts this for all defaults.
void Config::TakeText(const Key& key, const char* text) {
  (void)ParseValue(key, text, &values_[static_cast<size_t>(IndexOf(key))]).ok();
}

// Replaces the values of all keys that the user has not set.
void Config::ApplyDefaults() {
  const Preset& preset = Presets()[static_cast<size_t>(ValueOf(*FindKey("preset")).integer)];
  const Key& method_key = *FindKey("method");
  if (!IsSet(method_key)) TakeText(method_key, NameOf(preset.method));
  const auto method = static_cast<Method>(ValueOf(method_key).integer);
  for (const Key& key : Keys()) {
    const bool is_choice_of_defaults = &key == &method_key || std::string_view(key.name) == "preset";
    if (!IsSet(key) && !is_choice_of_defaults) TakeText(key, DefaultText(key, preset, method));
  }
}

void Config::MarkInherited() {
  for (Source& source : sources_) {
    if (source == Source::kOwn) source = Source::kInherited;
  }
}

template <typename Make>
Status Config::Set(const char* name, Make&& make) {
  if (name == nullptr) return Invalid("key is NULL: expected the name of a key");
  const Key* key = FindKey(name);
  if (key == nullptr) return UnknownKey(name);
  Value value;
  SHAMPOO_RETURN_IF_ERROR(make(*key, &value));
  const bool is_preset = key == FindKey("preset");
  if (is_preset && IsSet(*key) && ValueOf(*key).text != value.text) {
    return Invalid("key preset: the value ", value.text, " is not allowed after ", ValueOf(*key).text,
                   ": expected one preset for a config; make a new config for another one");
  }
  values_[static_cast<size_t>(IndexOf(*key))] = std::move(value);
  sources_[static_cast<size_t>(IndexOf(*key))] = Source::kOwn;
  if (is_preset || key == FindKey("method")) ApplyDefaults();
  return {};
}

Status Config::SetNumber(const char* name, double number) {
  return Set(name, [number](const Key& key, Value* value) { return MakeNumber(key, number, value); });
}

Status Config::SetInteger(const char* name, int64_t integer) {
  return Set(name, [integer](const Key& key, Value* value) { return MakeInteger(key, integer, value); });
}

Status Config::SetText(const char* name, const char* text) {
  return Set(name, [text](const Key& key, Value* value) {
    if (text == nullptr) return Invalid("key ", key.name, ": the value is NULL: expected a text, ", RangeText(key));
    return ParseValue(key, text, value);
  });
}

const std::string* Config::Text(std::string_view name) const {
  const Key* key = FindKey(name);
  return key == nullptr ? nullptr : &ValueOf(*key).text;
}

// Checks that the method reads all keys that were set in this config itself.
Status Config::CheckMethod(Method method) const {
  for (const Key& key : Keys()) {
    const std::string& text = ValueOf(key).text;
    const bool is_off = text == key.default_text || (key.off_text != nullptr && text == key.off_text);
    if (Reads(method, key) || SourceOf(key) != Source::kOwn || is_off) continue;
    return RejectUnread(method, key, ValueOf(key).text);
  }
  return {};
}

Status Config::Resolve(Settings* settings) const {
  Settings made;
  const auto method = static_cast<Method>(ValueOf(*FindKey("method")).integer);
  SHAMPOO_RETURN_IF_ERROR(CheckMethod(method));
  for (const Key& key : Keys()) {
    Value value = ValueOf(key);
    // The value of a key that the method does not read may be inherited from the config of another method. Ignore it.
    if (!Reads(method, key)) SHAMPOO_RETURN_IF_ERROR(ParseValue(key, key.default_text, &value));
    if (key.number != nullptr) made.*key.number = value.number;
    if (key.integer != nullptr) made.*key.integer = value.integer;
    if (key.flag != nullptr) made.*key.flag = value.integer != 0;
    if (key.choose != nullptr) key.choose(&made, value.integer);
    if (key.dtype != nullptr && !value.is_auto) {
      Dtype dtype;
      if (FloatDtypeFromName(value.text, &dtype)) made.*key.dtype = dtype;
    }
  }

  SHAMPOO_RETURN_IF_ERROR(CheckDecay(made));
  SHAMPOO_RETURN_IF_ERROR(CheckNorms(made));
  SHAMPOO_RETURN_IF_ERROR(ResolveIgnoredDims(&made));
  if (method != Method::kShampoo) {
    if (IsElementwise(method)) ResolveElementwise(&made);
    if (UsesEigenbasis(method)) SHAMPOO_RETURN_IF_ERROR(ResolveBasis(&made));
    SHAMPOO_RETURN_IF_ERROR(made.CheckMoments());
    *settings = std::move(made);
    return {};
  }
  const Key& override_key = *FindKey("inverse_root_override");
  SHAMPOO_RETURN_IF_ERROR(ParseList(override_key, ValueOf(override_key).text, &made.inverse_root_override));
  ResolveGrafting(&made);
  if (ValueOf(*FindKey("root_rank_rtol")).is_auto) made.root_rank_rtol = -1;
  if (made.skip_dim_size > 0 && made.grafting == Grafting::kNone) {
    return Invalid("key skip_dim_size: the value ", made.skip_dim_size,
                   " is not allowed with grafting none: expected 0, or a grafting method, which updates tensors whose "
                   "dimensions are all skipped");
  }
  if (made.factor_correction == FactorTerm::kKl && made.initial_inverse == InitialInverse::kZero) {
    return Invalid(
        "key factor_correction: the value kl is not allowed with initial_inverse zero, which would keep the factor "
        "matrices at zero: expected initial_inverse identity, or factor_correction none");
  }
  SHAMPOO_RETURN_IF_ERROR(ResolveEpsilon(&made));
  SHAMPOO_RETURN_IF_ERROR(CheckRootMethod(made));
  SHAMPOO_RETURN_IF_ERROR(ResolveSchedule(&made));
  SHAMPOO_RETURN_IF_ERROR(made.CheckMoments());
  *settings = std::move(made);
  return {};
}

// An elementwise method is the grafting method of the same name, without preconditioning. Sets the fields of keys that
// it does not read to values that have no effect.
void Config::ResolveElementwise(Settings* settings) const {
  settings->grafting = GraftingOf(settings->method);
  if (settings->method == Method::kAdagrad) settings->beta2 = 1;  // an unweighted sum
  if (ValueOf(*FindKey("epsilon")).is_auto) settings->epsilon = settings->method == Method::kAdagrad ? 1e-10 : 1e-8;
  settings->root_relative_epsilon = 0;
  settings->start_preconditioning_step = 1;
  settings->inverse_root_override = {0};
}

void Config::ResolveGrafting(Settings* settings) const {
  if (ValueOf(*FindKey("grafting_beta2")).is_auto) {
    settings->grafting_beta2 = settings->grafting == Grafting::kRmsprop ? 0.99 : 0.999;
  }
  // Adagrad's second moment is an unweighted sum: the same recurrence with a decay of 1.
  if (settings->grafting == Grafting::kAdagrad) settings->grafting_beta2 = 1.0;
  if (ValueOf(*FindKey("grafting_epsilon")).is_auto) {
    settings->grafting_epsilon = settings->grafting == Grafting::kAdagrad ? 1e-10 : 1e-8;
  }
}

Status Config::ResolveIgnoredDims(Settings* settings) const {
  const Key& key = *FindKey("ignored_dims");
  const std::string& text = Reads(settings->method, key) ? ValueOf(key).text : key.default_text;
  if (text == key.default_text) return {};
  SHAMPOO_RETURN_IF_ERROR(ParseList(key, text, &settings->ignored_dims));
  if (settings->ignored_dims.size() % 2 == 0) return {};
  return Invalid("key ignored_dims: the value ", text,
                 " is not allowed: expected pairs of an order and a dimension, such "
                 "as 2,1, or 0");
}

// Resolves the defaults of a method that works in eigenbases, and checks its keys.
Status Config::ResolveBasis(Settings* settings) const {
  if (settings->method == Method::kKlShampoo) settings->grafting = Grafting::kNone;
  ResolveGrafting(settings);
  settings->root_relative_epsilon = 0;
  settings->refresh_growth = 0;
  settings->inverse_root_override = {0};
  if (settings->method == Method::kKlShampoo) settings->factor_correction = FactorTerm::kKl;
  if (ValueOf(*FindKey("epsilon")).is_auto) settings->epsilon = 1e-8;
  if (ValueOf(*FindKey("shampoo_beta")).is_auto) settings->shampoo_beta = settings->beta2;
  if (ValueOf(*FindKey("relative_epsilon")).is_auto) settings->relative_epsilon = -1;
  if (settings->method == Method::kKlShampoo) settings->relative_epsilon = 0;
  if (ValueOf(*FindKey("kl_cap")).is_auto) settings->kl_cap = -1;

  const bool is_before = settings->basis_order == BasisOrder::kBefore;
  // The keys that only one order reads, with their values if it does not read them.
  constexpr Default kOnlyBefore[] = {
      {"start_preconditioning_step", "-1"}, {"basis_init", "eigen"}, {"grafting", "none"}};
  constexpr Default kOnlyAfter[] = {{"first_step", "skip"}, {"factor_start", "zero"}};
  for (const auto& [name, off] : is_before ? std::span<const Default>(kOnlyAfter) : kOnlyBefore) {
    const Key& key = *FindKey(name);
    if (!Reads(settings->method, key) || ValueOf(key).text == off) continue;
    return Invalid("key ", name, ": the value ", ValueOf(key).text, " is not allowed with basis_order ",
                   is_before ? "before" : "after", ", which does not read this key: expected basis_order ",
                   is_before ? "after" : "before", ", or leave the key out");
  }
  if (settings->kl_eigenvalues == KlEigenvalues::kBasis && !is_before) {
    return Invalid(
        "key kl_eigenvalues: the value basis is not allowed with basis_order after: expected ema, or "
        "basis_order before");
  }
  for (const auto& [name, dtype] : {std::pair("filtered_grad_dtype", settings->filtered_grad_dtype),
                                    std::pair("second_moment_dtype", settings->second_moment_dtype)}) {
    if (dtype != Dtype::kF16) continue;
    return Invalid(
        "key ", name, ": the value f16 is not allowed with method ", NameOf(settings->method),
        ", because a rotation may enlarge elements beyond the range of f16: expected auto, f32, f64 or bf16");
  }
  int64_t& start = settings->start_preconditioning_step;
  if (start < 1) start = start == -1 ? settings->precondition_frequency : 1;
  return {};
}

// If the user has set epsilon or root_relative_epsilon, disables the other one, which the preset may have set.
Status Config::ResolveEpsilon(Settings* settings) const {
  const bool relative_is_set = IsSet("root_relative_epsilon") && settings->root_relative_epsilon != 0;
  if (relative_is_set && IsSet("epsilon") && settings->epsilon != 0) {
    return Invalid("keys epsilon and root_relative_epsilon: the values ", settings->epsilon, " and ",
                   settings->root_relative_epsilon,
                   " are both set: expected one of them; leave the other one out, or set it to 0");
  }
  if (relative_is_set) {
    settings->epsilon = 0;
  } else if (IsSet("epsilon") || settings->root_rank_handling == RankHandling::kPseudoInverse) {
    settings->root_relative_epsilon = 0;
    if (!IsSet("epsilon")) settings->epsilon = 0;
  }
  return {};
}

Status Config::ResolveSchedule(Settings* settings) const {
  const int64_t frequency = settings->precondition_frequency;
  const bool grows = settings->refresh_growth > 0;
  int64_t& start = settings->start_preconditioning_step;
  if (start == -1) start = grows ? 1 : frequency;
  if (start == 0 && (grows || frequency == 1)) start = 1;
  if (start < frequency && !grows) {
    return Invalid(
        "start_preconditioning_step is ", start, " and precondition_frequency is ", frequency,
        ": with refresh_growth 0 the start must be at least the frequency; use -1 (the same as the frequency), "
        "a value of at least ",
        frequency, ", or refresh_growth above 0");
  }
  if (settings->root_async >= frequency) {
    return Invalid("root_async is ", settings->root_async, " and precondition_frequency is ", frequency,
                   ": expected less than ", frequency,
                   ", because inverse roots must be in use before the next ones are computed");
  }
  return {};
}

int64_t Settings::RootFor(int factors) const {
  const size_t index = inverse_root_override.size() == 1 ? 0 : static_cast<size_t>(factors);
  const int64_t chosen = index < inverse_root_override.size() ? inverse_root_override[index] : 0;
  return chosen == 0 ? 2 * int64_t{factors} : chosen;
}

}  // namespace shampoo
