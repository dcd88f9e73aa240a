// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/later_release.h"

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

namespace shampoo::golden {
namespace {

using nlohmann::json;

// Reads the members of a JSON object. Done() throws if Take() has not read all members.
class Options {
 public:
  explicit Options(const json& object) : left_(object) {}

  json Take(const std::string& name, const json& otherwise) {
    const auto found = left_.find(name);
    if (found == left_.end()) return otherwise;
    json value = *found;
    left_.erase(found);
    return value;
  }
  void Done() const {
    if (!left_.empty()) throw std::runtime_error("options " + left_.dump() + " are not supported by this tool");
  }

 private:
  json left_;
};

void Expect(const std::string& option, const json& value, const json& supported) {
  if (value != supported) throw std::runtime_error(option + " = " + value.dump() + " is not supported by this tool");
}

void SetGrafting(const json& recorded, Config* config) {
  if (recorded.is_null()) return config->Set("grafting", "none");
  Options options(recorded);
  const auto name = options.Take("class", "").get<std::string>();
  constexpr std::array<std::pair<const char*, const char*>, 4> kMethods = {{{"AdamPreconditionerConfig", "adam"},
                                                                            {"AdaGradPreconditionerConfig", "adagrad"},
                                                                            {"RMSpropPreconditionerConfig", "rmsprop"},
                                                                            {"SGDPreconditionerConfig", "sgd"}}};
  for (const auto& [recorded_name, method] : kMethods) {
    if (name == recorded_name) config->Set("grafting", method);
  }
  const json beta2 = options.Take("beta2", nullptr);
  const json epsilon = options.Take("epsilon", nullptr);
  if (!beta2.is_null()) config->Set("grafting_beta2", beta2);
  if (!epsilon.is_null()) config->Set("grafting_epsilon", epsilon);
  (void)options.Take("drop_weighting_factor_on_gsquare", false);  // the key drop_weighting also applies to grafting
  options.Done();
}

// Sets the key ignored_dims. by_order maps each order of a tensor to the ignored dims. The dims are in a list, as in
// {"2": [1]}, or in an object that gives each ignored dim the exponent 0, as in {"3": {"1": 0.0}}.
void SetIgnoredDims(const json& by_order, Config* config) {
  std::string pairs;
  for (const auto& [order, dims] : by_order.items()) {
    for (const auto& [at, value] : dims.items()) {
      if (dims.is_object()) Expect("inverse_exponent_override", value, 0.0);
      const std::string dim = dims.is_object() ? at : value.dump();
      pairs += (pairs.empty() ? "" : ",") + order + "," + dim;
    }
  }
  if (!pairs.empty()) config->Set("ignored_dims", pairs);
}

// Sets the keys of inverse roots. The recorded class selects root_method.
void SetRoots(const json& recorded, Config* config) {
  Options options(recorded);
  const auto name = options.Take("class", "EigenConfig").get<std::string>();
  if (name == "CoupledNewtonConfig" || name == "CoupledHigherOrderConfig") {
    const bool is_newton = name == "CoupledNewtonConfig";
    config->Set("root_method", is_newton ? "newton" : "higher_order");
    config->Set("root_max_iterations", options.Take("max_iterations", 100));
    config->Set("root_tolerance", options.Take("tolerance", is_newton ? 1e-6 : 1e-8));
    if (!is_newton) {
      config->Set("root_order", options.Take("order", 3));
      config->Set("epsilon", options.Take("rel_epsilon", 0.0));
      config->Set("row_sum_epsilon", true);
      (void)options.Take("abs_epsilon", 0.0);  // unused: in all recorded cases, rel_epsilon gives a larger epsilon
    }
  } else {
    if (name != "EigenConfig") Expect("class", name, "EighEigendecompositionConfig");
    Expect("tolerance", options.Take("tolerance", 0.0), 0.0);
    Options rank(options.Take("rank_deficient_stability_config", json::object()));
    if (rank.Take("class", "PerturbationConfig") == "PseudoInverseConfig") {
      config->Set("root_rank_handling", "pseudo_inverse");
      config->Set("root_rank_rtol", rank.Take("rank_rtol", nullptr));
      config->Set("root_rank_atol", rank.Take("rank_atol", 0.0));
    }
    // Epsilon can be added before or after the eigendecomposition. The results differ only by rounding.
    (void)rank.Take("perturb_before_computation", true);
    rank.Done();
  }
  options.Done();
}

// Sets the keys of Shampoo with inverse roots of factor matrices. Some classes of the release (later_release.h) store
// the roots. Other classes store eigendecompositions, from which each step computes the roots. If each refresh computes
// a new eigendecomposition, the results of both kinds of classes differ only by rounding.
void SetShampoo(const std::string& name, Options* options, int order, Config* config) {
  const bool is_kl =
      name == "RootInvKLShampooPreconditionerConfig" || name == "EigendecomposedKLShampooPreconditionerConfig";
  if (!is_kl && name != "EigendecomposedShampooPreconditionerConfig") {
    Expect("class", name, "RootInvShampooPreconditionerConfig");
  }
  config->Set("initial_inverse", "identity");
  if (is_kl) config->Set("factor_correction", "kl");
  // In the release, exponents depend on the number of dims of the tensor, including the ignored dims.
  const json exponents = options->Take("inverse_exponent_override", json::object());
  SetIgnoredDims(exponents, config);
  if (!exponents.empty()) config->Set("inverse_root_override", 2 * order);
  SetRoots(options->Take("amortized_computation_config", json::object()), config);
  config->Set("factor_dtype", options->Take("factor_matrix_dtype", "auto"));
  const json dtype = options->Take("inv_factor_matrix_dtype", "auto");
  config->Set("inverse_dtype", dtype);
  if (dtype == "f64") config->Set("root_dtype", dtype);
  for (const char* const unused : {"factor_matrix_eigenvectors_dtype", "factor_matrix_eigenvalues_dtype"}) {
    (void)options->Take(unused, nullptr);
  }
  (void)options->Take("use_symmetric_packing", true);  // affects only how matrices are stored
  config->Set("drop_weighting", options->Take("drop_weighting_factor_on_gsquare", false));
  if (options->Take("use_trace_scaling", false) == true) {
    config->Set("trace_scaling", options->Take("trace_scaling_exponent", nullptr));
  }
  // The step counter of the release also counts the steps in which a group has no gradient. SetSoap() does not set the
  // key count_empty_steps, because no recorded case of method soap has such a step.
  config->Set("count_empty_steps", true);
}

// Sets the keys of eigenvalue-corrected Shampoo. This is method soap with basis_order=before: a step refreshes the
// eigenbases before it computes the direction.
void SetSoap(Options* options, const json& epsilon, Config* config) {
  config->Set("basis_order", "before");
  config->Set("basis_epsilon", epsilon);
  config->Set("basis_sort", "ascending");
  config->Set("basis_transport", "none");
  config->Set("relative_epsilon", "0");
  config->Set("skip_dim_size", 0);
  Options basis(options->Take("amortized_computation_config", json::object()));
  const bool is_qr = basis.Take("class", "EighEigendecompositionConfig") == "QREigendecompositionConfig";
  config->Set("basis_method", is_qr ? "qr" : "eigen");
  if (is_qr) config->Set("basis_init", "identity");
  config->Set("basis_iterations", basis.Take("max_iterations", 1));
  config->Set("basis_tolerance", basis.Take("tolerance", 0.0));
  basis.Done();
  const json exponents = options->Take("inverse_exponent_override", json::object());
  for (const auto& [order, exponent] : exponents.items()) {
    config->Set("inverse_exponent", exponent);
  }
  SetIgnoredDims(options->Take("ignored_basis_change_dims", json::object()), config);
  config->Set("drop_weighting", options->Take("drop_weighting_factor_on_gsquare", false));
  // Trace scaling has no effect here: matrices that differ only by a factor have the same eigenvectors.
  (void)options->Take("use_trace_scaling", false);
  for (const char* const dtype :
       {"factor_matrix_dtype", "factor_matrix_eigenvectors_dtype", "corrected_eigenvalues_dtype"}) {
    (void)options->Take(dtype, nullptr);
  }
}

// Sets the keys of spectral descent, which is method muon with use_nesterov=false.
void SetMuon(Options* options, Config* config) {
  config->Set("use_nesterov", false);
  Options orthogonalization(options->Take("orthogonalization_config", json::object()));
  const bool is_exact = orthogonalization.Take("class", "") == "SVDOrthogonalizationConfig";
  config->Set("orthogonalization", is_exact ? "exact" : "newton_schulz");
  if (is_exact) {
    config->Set("dual_norm_scale", orthogonalization.Take("scale_by_nuclear_norm", false));
  } else {
    config->Set("ns_steps", orthogonalization.Take("num_iterations", 5));
    std::string coefficients;
    for (const json& one : orthogonalization.Take("coefficients", {3.4445, -4.7750, 2.0315})) {
      coefficients += (coefficients.empty() ? "" : ",") + one.dump();
    }
    config->Set("ns_coefficients", coefficients);
  }
  const json scale = orthogonalization.Take("scale_by_dims_fn", nullptr);
  if (scale.is_null()) {
    config->Set("shape_scale", "none");
  } else if (scale == "0.2 * sqrt(max(rows, columns))") {
    config->Set("shape_scale", "rms_adam");
  } else {
    Expect("scale_by_dims_fn", scale, "sqrt(max(1, rows / columns))");
    config->Set("shape_scale", "muon");
  }
  orthogonalization.Done();
}

void SetAveraging(const json& recorded, Config* config) {
  if (recorded.is_null()) return;
  Options options(recorded);
  const auto name = options.Take("class", "").get<std::string>();
  if (name == "ClassicMomentumConfig") {
    config->Set("momentum", options.Take("momentum", nullptr));
    config->Set("momentum_dampening", options.Take("dampening", 0.0));
    config->Set("use_nesterov", options.Take("use_nesterov", false));
  } else if (name == "ScheduleFreeConfig") {
    config->Set("averaging", "schedule_free");
    config->Set("average_lr_power", options.Take("eval_coeff_lr_power", nullptr));
  } else {
    Expect("class", name, "GeneralizedPrimalAveragingConfig");
    config->Set("averaging", "gpa");
    config->Set("average_eval", options.Take("eval_interp_coeff", nullptr));
  }
  if (name != "ClassicMomentumConfig") config->Set("average_train", options.Take("train_interp_coeff", nullptr));
  options.Done();
}

const char* DecayOf(const json& type) {
  if (type == "L2") return "coupled";
  if (type == "CORRECTED") return "corrected";
  if (type == "INDEPENDENT") return "independent_peak";
  Expect("weight_decay_type", type, "DECOUPLED");
  return "decoupled";
}

// Sets the keys that determine the blocks of methods with factor matrices.
void SetBlocks(Options* options, Config* config) {
  for (const char* const key : {"max_preconditioner_dim", "precondition_frequency"}) {
    config->Set(key, options->Take(key, nullptr));
  }
  // The release merges dims until at most target_parameter_dimensionality dims are left; "inf" turns merging off. In
  // the recorded cases, only the value 1 merges dims: no shape in the cases with the value 2 has more than two dims.
  const json dims = options->Take("target_parameter_dimensionality", "inf");
  config->Set("use_merge_dims", dims == 1);
  config->Set("precondition_1d", true);
}

}  // namespace

Config LaterReleaseConfig(const json& group, int order) {
  Config config;
  Options options(group);
  (void)options.Take("params", nullptr);
  Options preconditioner(options.Take("preconditioner_config", json::object()));
  const auto name = preconditioner.Take("class", "").get<std::string>();
  const json epsilon = options.Take("epsilon", 0.0);
  const json betas = options.Take("betas", nullptr);
  if (name == "SpectralDescentPreconditionerConfig") {
    config.Set("method", "muon");
    SetMuon(&preconditioner, &config);
  } else if (name == "SignDescentPreconditionerConfig") {
    config.Set("method", "sign");
    // In the release, scale_fn can be the sum of the magnitudes of the elements of a block. The library can compute
    // this sum only for a whole tensor (key dual_norm_scale).
    Expect("scale_fn", preconditioner.Take("scale_fn", nullptr), nullptr);
  } else {
    const bool is_soap = name == "EigenvalueCorrectedShampooPreconditionerConfig";
    config.Set(is_soap ? "method" : "preset", is_soap ? "soap" : "shampoo_2024");
    config.Set("beta2", betas.at(1));
    config.Set("epsilon", epsilon);
    SetBlocks(&options, &config);
    if (is_soap) {
      SetSoap(&preconditioner, epsilon, &config);
    } else {
      SetShampoo(name, &preconditioner, order, &config);
    }
  }
  for (const char* const unused :
       {"max_preconditioner_dim", "precondition_frequency", "target_parameter_dimensionality"}) {
    (void)options.Take(unused, nullptr);  // these members remain if SetBlocks was not called
  }
  config.Set("beta1", betas.at(0));
  const json beta3 = options.Take("beta3", -1.0);
  if (beta3 != -1.0) config.Set("beta3", beta3);
  config.Set("weight_decay_type", DecayOf(options.Take("weight_decay_type", "DECOUPLED")));
  for (const char* const key : {"lr", "weight_decay", "start_preconditioning_step", "use_bias_correction"}) {
    config.Set(key, options.Take(key, nullptr));
  }
  SetAveraging(options.Take("iterate_averaging_config", nullptr), &config);
  SetGrafting(options.Take("grafting_config", nullptr), &config);
  preconditioner.Done();
  options.Done();
  return config;
}

}  // namespace shampoo::golden
