// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares method sign, and the keys that control norms, on the device and on the CPU.
#include "tests/cuda/against_cpu/course.h"

namespace shampoo_test {
namespace {

// Returns parameters of one to four dims. The output dim is the first or the last dim. Parameter 7 is a stack of
// matrices, and the last parameter has several tiles.
std::vector<ParamSpec> NormParams(int32_t dtype) {
  std::vector<ParamSpec> params =
      ParamsOf({{9, 7}, {9, 7}, {3, 4, 5}, {3, 4, 5}, {6}, {4, 3, 2, 5}, {1}, {3, 5, 4}, {90, 70}}, dtype);
  for (const size_t p : {1, 3, 8}) params[p].fan = 1;
  params[7].stack_dims = 1;
  return params;
}

void CheckNormKeys(const Keys& keys, int64_t steps = 3) {
  for (const int32_t dtype : {SHAMPOO_F64, SHAMPOO_F32}) {
    // In float32, the roots of the device and of the CPU differ so much that small elements of directions may have
    // different signs.
    if (dtype == SHAMPOO_F32 && keys[0].second == "shampoo") continue;
    INFO(keys, " dtype ", dtype);
    CHECK(Difference({.spec = {keys, NormParams(dtype)}, .steps = steps}) == "");
  }
}

const Keys kSign = "method=sign";
// Shampoo with a large epsilon, so that roots hardly depend on the solver.
const Keys kShampoo = "method=shampoo epsilon=0.1 grafting=adam use_merge_dims=false";

TEST_CASE("method sign takes the same steps as on the CPU") {
  CheckNormKeys(kSign);
  CheckNormKeys(kSign + Keys("beta1=0"));
  CheckNormKeys(kSign + Keys("beta1=0.99 beta3=0.9 weight_decay=0.1"));
  CheckNormKeys(kSign + Keys("momentum=0.8 use_nesterov=true weight_decay=0.1"));
  CheckNormKeys(kSign + Keys("cautious_decay=true weight_decay=0.3 weight_decay_type=independent"));
  CheckNormKeys(kSign + Keys("weight_decay=0.3 weight_decay_type=coupled use_bias_correction=false"));
  for (const char* correction : {"false", "true"}) {
    CheckNormKeys(kSign + Keys{{"dual_norm_scale", "true"}, {"use_bias_correction", correction}});
  }
  CheckNormKeys(kSign + Keys("dual_norm_scale=true beta1=0 max_update_rms=0.5"));
  for (const char* grafting : {"sgd", "adagrad", "rmsprop", "adam"}) {
    CheckNormKeys(kSign + Keys{{"grafting", grafting}, {"start_preconditioning_step", "3"}});
    CheckNormKeys(kSign + Keys{{"grafting", grafting}, {"dual_norm_scale", "true"}, {"beta1", "0"}});
  }
  CheckNormKeys(kSign + Keys("filtered_grad_dtype=bf16 output=updates"));
}

TEST_CASE("with method sign, an element whose filtered gradient is 0 does not move, as on the CPU") {
  Course course{.spec = {kSign + Keys("dual_norm_scale=true"), {{{5, 4}}, {{3}}}}, .steps = 3};
  course.gradient = [](int64_t t, size_t p, size_t elements) {
    std::vector<double> gradient(elements);
    for (size_t i = 0; p == 0 && i < elements; i += 3) gradient[i] = i % 2 == 0 ? 0.5 * static_cast<double>(t) : -1.0;
    return gradient;
  };
  CHECK(Difference(course) == "");
}

TEST_CASE("shape_scale gives directions the same length as on the CPU") {
  for (const char* scale : {"muon", "rms_adam", "spectral", "sqrt_max"}) {
    for (const Keys& method : {kSign, kShampoo, Keys("method=adam"), Keys("method=rmsprop")}) {
      CheckNormKeys(method + Keys{{"shape_scale", scale}, {"weight_decay", "0.1"}}, 2);
    }
    CheckNormKeys(kSign + Keys{{"shape_scale", scale}, {"update_norm", "frobenius"}, {"max_update_rms", "0.3"}}, 2);
  }
}

TEST_CASE("for the methods sign, shampoo and adam, each norm_control gives parameters the same norms as on the CPU") {
  for (const Keys& method : {kSign, kShampoo, Keys("method=adam")}) {
    for (const char* control : {"hyperball", "relative", "radial_brake", "radial"}) {
      const Keys keys = method + Keys{{"norm_control", control}, {"lr", "0.1"}};
      CheckNormKeys(keys + Keys("weight_decay=0.2"));
      CheckNormKeys(keys + Keys("weight_decay=0.2 cautious_decay=true"));
      CheckNormKeys(keys + Keys("update_floor=0.3 radial_outward=0.25 radial_inward=0.75"));
      CheckNormKeys(keys + Keys("update_floor=0.3 update_floor_rows=true weight_decay=0.2 cautious_decay=true"));
    }
    CheckNormKeys(method + Keys("norm_control=hyperball norm_radius=2 shape_scale=spectral"));
    CheckNormKeys(method + Keys("update_floor=0.3 weight_decay=0.1"));
    CheckNormKeys(method + Keys("update_floor=0.3 update_floor_rows=true lr=0.1"));
    CheckNormKeys(method + Keys("update_floor_rows=true"));  // update_floor is not set
  }
}

TEST_CASE("with gradients or parameters of zeros, norm_control has the same effect as on the CPU") {
  for (const char* control : {"hyperball", "relative", "radial_brake", "radial", "none"}) {
    for (const bool in_param : {false, true}) {
      INFO("norm_control ", std::string(control), ", zeros in the parameter ", in_param);
      Course course{.steps = 4};
      course.spec.keys = kSign + Keys{{"norm_control", control},
                                      {"update_floor", "0.2"},
                                      {"on_nonfinite", "skip_block"},
                                      {"weight_decay", "0.1"}};
      course.spec.params = {{{6, 4}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64}, {{3, 2}}};
      course.gradient = [&](int64_t t, size_t p, size_t elements) {
        const double value = in_param || p == 1 || t == 3 ? 1.5 : 0;
        return std::vector<double>(elements, value);
      };
      course.before = [&](int64_t t, Model* model) {
        if (in_param && t == 1) model->SetParam(0, std::vector<double>(24));
      };
      CHECK(Difference(course) == "");
    }
  }
}

}  // namespace
}  // namespace shampoo_test
