// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>
#include <set>
#include <sstream>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

TEST_CASE("the library reports the version of its header") {
  CHECK(shampoo_version() == SHAMPOO_VERSION_MAJOR * 10000 + SHAMPOO_VERSION_MINOR * 100 + SHAMPOO_VERSION_PATCH);
  const std::string info = shampoo_build_info();
  const std::string version = std::to_string(SHAMPOO_VERSION_MAJOR) + "." + std::to_string(SHAMPOO_VERSION_MINOR) +
                              "." + std::to_string(SHAMPOO_VERSION_PATCH);
  CHECK(info.find("\"version\": \"" + version + "\"") != std::string::npos);
  CHECK(shampoo_build_info() == shampoo_build_info());  // both calls return the same pointer
}

TEST_CASE("the first backend is the CPU and is usable") {
  REQUIRE(shampoo_backend_count() == 2);
  shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
  RequireOk(shampoo_backend_describe(0, &info));
  CHECK(std::string(info.name) == "cpu");
  CHECK(std::string(info.unavailable_reason).empty());
  CHECK(info.usable == 1);
  CHECK(info.device_count == 1);
}

TEST_CASE("the second backend is CUDA and reports an unavailable reason if it is not usable") {
  shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
  RequireOk(shampoo_backend_describe(1, &info));
  CHECK(std::string(info.name) == "cuda");
  CHECK((info.usable == 1) == std::string(info.unavailable_reason).empty());
  CHECK((info.usable == 1) == (info.device_count > 0));
}

std::set<std::string> Words(const char* text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

TEST_CASE("the keys of this version have the expected names, scopes and flags") {
  const std::set<std::string> changeable = Words(
      "lr beta1 beta2 epsilon root_relative_epsilon momentum weight_decay grafting_beta2 "
      "grafting_epsilon gradient_scale shampoo_beta adam_lr");
  const std::set<std::string> of_optimizer = Words(
      "threads track_times communicate communication_dtype comm_bucket_bytes balance verify_replicas "
      "shard_mode checkpoint_keep on_block_mismatch status_lag root_device precondition_math rounding_seed");
  const std::set<std::string> of_group = Words(
      "lr beta1 beta2 epsilon momentum use_nesterov weight_decay weight_decay_type "
      "max_preconditioner_dim use_merge_dims precondition_frequency start_preconditioning_step "
      "inverse_root_override exponent_multiplier use_bias_correction grafting grafting_beta2 "
      "grafting_epsilon initial_inverse root_method root_order root_tolerance root_max_iterations "
      "root_rank_handling root_rank_rtol root_rank_atol root_failure_tolerance track_root_residuals "
      "root_spread root_async on_nonfinite computation_dtype root_dtype factor_dtype inverse_dtype "
      "filtered_grad_dtype momentum_dtype grafting_dtype gradient_scale output preset "
      "method second_moment_dtype "
      "root_relative_epsilon merge_min_dim precondition_1d route refresh_growth allow_stalled_moments "
      "factor_update_frequency precondition_dims shampoo_beta relative_epsilon factor_correction kl_eigenvalues "
      "kl_init kl_cap basis_method basis_iterations basis_tolerance skip_dim_size update_norm update_norm_target "
      "max_update_rms norm_control norm_radius radial_outward radial_inward update_floor update_floor_rows "
      "shape_scale second_moment soap_post orthogonalization ns_coefficients ns_steps ns_norm muon_math "
      "dual_norm_scale "
      "muon_local "
      "adam_lr adam_beta1 adam_beta2 adam_epsilon beta3 peak_lr cautious_decay "
      "averaging average_train average_eval average_lr_power weight_ema weight_ema_start average_dtype "
      "state_rounding param_rounding");
  const std::set<std::string> for_replay = Words(
      "basis_order first_step factor_start basis_init basis_sort basis_transport basis_epsilon inverse_exponent "
      "ignored_dims drop_weighting trace_scaling row_sum_epsilon momentum_dampening count_empty_steps");
  std::set<std::string> names;
  for (int32_t i = 0; i < shampoo_config_key_count(); ++i) {
    shampoo_key_info info = SHAMPOO_KEY_INFO_INIT;
    RequireOk(shampoo_config_describe_key(i, &info));
    const std::string name = info.name;
    CAPTURE(name);
    CHECK(names.insert(name).second);
    CHECK(info.changeable == (changeable.count(name) != 0 ? 1 : 0));
    CHECK(info.scope == (of_optimizer.count(name) != 0 ? 0 : 1));
    CHECK(std::string(info.doc).size() > 20);
    CHECK(std::string(info.range) != "");
    CHECK(info.for_replay == (for_replay.count(name) != 0 ? 1 : 0));
  }
  for (const std::string& name : for_replay) CHECK(names.erase(name) == 1);
  for (const std::string& name : of_optimizer) CHECK(names.erase(name) == 1);
  CHECK(names == of_group);
}

TEST_CASE("a clone is independent of its config, and a plan keeps the values with which it was created") {
  ConfigPtr config = MakeConfig("lr=0.5");
  shampoo_config* clone = nullptr;
  RequireOk(shampoo_config_clone(&clone, config.get()));
  RequireOk(shampoo_config_set_f64(config.get(), "lr", 0.25));
  CHECK(std::string(shampoo_config_get(clone, "lr")) == "0.5");
  shampoo_plan* handle = nullptr;
  const shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  RequireOk(shampoo_plan_create(&handle, clone, &plan_desc));
  PlanPtr plan(handle);
  RequireOk(shampoo_config_set_f64(clone, "lr", 7));
  shampoo_config_destroy(clone);
  config.reset();
  char name[] = "w";
  AddParam(plan, Param(name, {2}));
  name[0] = '?';
  RequireOk(shampoo_plan_finish(plan.get()));
  const OptimizerPtr optimizer = MakeOptimizer(plan);
  plan.reset();
  double lr = 0;
  RequireOk(shampoo_optimizer_get(optimizer.get(), 0, "lr", &lr));
  CHECK(lr == 0.5);
  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  RequireOk(shampoo_state_describe(optimizer.get(), 1, &entry));
  CHECK(std::string(entry.key) == "w/0/factor.0");
}

}  // namespace
}  // namespace shampoo_test
