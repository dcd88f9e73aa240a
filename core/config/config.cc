// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/config/config.h"

#include <span>
#include <utility>

#include "core/base/text.h"
#include "core/config/nearest_name.h"

namespace shampoo {
namespace {

// The name of an option in other optimizers. keys: the keys to use instead, in the words of the error message.
struct Alias {
  std::string_view name;
  const char* keys;
};
constexpr Alias kAliases[] = {
    {"learning_rate", "lr"},
    {"step_size", "lr"},
    {"betas",
     "beta1 for the first value, and grafting_beta2 (of the grafting method) or beta2 (of the factor matrices, or of "
     "method adam) for the second"},
    {"b1", "beta1"},
    {"b2", "grafting_beta2 (of the grafting method) or beta2 (of the factor matrices, or of method adam)"},
    {"stats_decay", "beta2"},
    {"eps", "grafting_epsilon (of the grafting method) or epsilon (of the inverse roots, or of method adam)"},
    {"matrix_eps", "epsilon"},
    {"matrix_epsilon", "epsilon"},
    {"diagonal_eps", "grafting_epsilon"},
    {"diagonal_epsilon", "grafting_epsilon"},
    {"nesterov", "use_nesterov"},
    {"wd", "weight_decay"},
    {"decoupled_weight_decay", "weight_decay_type"},
    {"use_decoupled_weight_decay", "weight_decay_type"},
    {"weight_decouple", "weight_decay_type"},
    {"mask", "a separate parameter group"},
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

// An option of other optimizers that no key replaces. advice: the end of the error message.
struct AbsentOption {
  std::string_view name;
  const char* advice;
};
constexpr AbsentOption kAbsentOptions[] = {
    {"maximize", "pass gradients with the opposite sign"},
    {"amsgrad", "AMSGrad is not supported; leave the key out"},
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
                 " docs/keys.md lists all keys");
}

}  // namespace

Config::Config() : values_(Keys().size()), sources_(Keys().size(), Source::kDefault) {
  for (const Key& key : Keys()) TakeText(key, key.default_text);
  ApplyDefaults();
}

// Sets a key to a default. `text` must pass the check of the key; a test asserts this for all defaults.
void Config::TakeText(const Key& key, const char* text) {
  (void)ParseValue(key, text, &values_[static_cast<size_t>(IndexOf(key))]).ok();
}

// Sets each key to the default of the preset or the method, unless the user has set the key.
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
    return Invalid("key preset: the value ", value.text,
                   " is not allowed, because this config already has preset=", ValueOf(*key).text,
                   ": expected one preset per config; make a new config for another preset");
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
    if (text == nullptr) {
      return Invalid("key ", key.name, ": the value is NULL: expected a string; allowed values: ", RangeText(key));
    }
    return ParseValue(key, text, value);
  });
}

const std::string* Config::Text(std::string_view name) const {
  const Key* key = FindKey(name);
  return key == nullptr ? nullptr : &ValueOf(*key).text;
}

}  // namespace shampoo
