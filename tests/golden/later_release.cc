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

// Reads the members of an object. Done() fails if a member was not read.
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
  (void)options.Take("drop_weighting_factor_on_gsquare", false);  // as in the preconditioner
  options.Done();
}

// Sets ignored_dims from an object such as {"2": [1]} or, for exponents, {"3": {"1": 0.0}}.
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

// Root-inverse KL-Shampoo: exponents are those of the order of the tensor, also if a dim is left out.
void SetKlShampoo(Options* options, int order, Config* config) {
  config->Set("factor_correction", "kl");
  config->Set("initial_inverse", "identity");
  const json exponents = options->Take("inverse_exponent_override", json::object());
  SetIgnoredDims(exponents, config);
  if (!exponents.empty()) config->Set("inverse_root_override", 2 * order);
  (void)options->Take("inv_factor_matrix_dtype", nullptr);
}

// Eigenvalue-corrected Shampoo, which is SOAP with the bases before the direction.
void SetSoap(Options* options, const json& epsilon, Config* config) {
  config->Set("basis_order", "before");
  config->Set("basis_epsilon", epsilon);
  config->Set("basis_sort", "ascending");
  config->Set("basis_transport", "none");
  config->Set("relative_epsilon", "0");
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
  for (const char* const dtype : {"factor_matrix_eigenvectors_dtype", "corrected_eigenvalues_dtype"}) {
    (void)options->Take(dtype, nullptr);
  }
}

}  // namespace

Config LaterReleaseConfig(const json& group, int order) {
  Config config;
  Options options(group);
  (void)options.Take("params", nullptr);
  Options preconditioner(options.Take("preconditioner_config", json::object()));
  const auto name = preconditioner.Take("class", "").get<std::string>();
  const bool is_soap = name == "EigenvalueCorrectedShampooPreconditionerConfig";
  if (!is_soap) Expect("class", name, "RootInvKLShampooPreconditionerConfig");
  if (is_soap) {
    config.Set("method", "soap");
  } else {
    config.Set("preset", "shampoo_2024");
  }
  const json epsilon = options.Take("epsilon", 0.0);
  config.Set("epsilon", epsilon);
  const json betas = options.Take("betas", nullptr);
  config.Set("beta1", betas.at(0));
  config.Set("beta2", betas.at(1));
  Expect("beta3", options.Take("beta3", -1.0), -1.0);
  Expect("iterate_averaging_config", options.Take("iterate_averaging_config", nullptr), nullptr);
  const json decay = options.Take("weight_decay_type", "DECOUPLED");
  config.Set("weight_decay_type", decay == "L2" ? "coupled" : "decoupled");
  for (const char* const key : {"lr", "weight_decay", "max_preconditioner_dim", "precondition_frequency",
                                "start_preconditioning_step", "use_bias_correction"}) {
    config.Set(key, options.Take(key, nullptr));
  }
  // Dims of the recorded shapes are not merged.
  (void)options.Take("target_parameter_dimensionality", nullptr);
  config.Set("use_merge_dims", false);
  config.Set("precondition_1d", true);
  if (is_soap) {
    SetSoap(&preconditioner, epsilon, &config);
    config.Set("skip_dim_size", 0);
  } else {
    SetKlShampoo(&preconditioner, order, &config);
  }
  SetGrafting(options.Take("grafting_config", nullptr), &config);
  (void)preconditioner.Take("factor_matrix_dtype", nullptr);
  preconditioner.Done();
  options.Done();
  return config;
}

}  // namespace shampoo::golden
