// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Runs courses (see course.h) with many combinations of keys on the device and on the CPU, and compares the results.
#include <cmath>

#include "tests/cuda/against_cpu/course.h"

namespace shampoo_test {
namespace {

// Runs a course in float64 and in float32. The factor matrices have low rank, so their smallest eigenvalues are
// rounding errors of the solver. Epsilon must be much larger than these errors, so it is larger in float32.
void CheckKeys(const Keys& keys, int64_t steps = 7) {
  for (const int32_t dtype : {SHAMPOO_F64, SHAMPOO_F32}) {
    INFO(keys, " dtype ", dtype);
    const Keys all = Keys{{"use_merge_dims", "false"}, {"epsilon", dtype == SHAMPOO_F64 ? "1e-3" : "0.1"}} + keys;
    CHECK(Difference({.spec = {all, ParamsOf({{9, 7}, {6}, {5, 4, 6}}, dtype)}, .steps = steps}) == "");
  }
}

TEST_CASE("every grafting method takes the same steps as on the CPU, before and after preconditioning starts") {
  for (const char* method : {"none", "sgd", "adagrad", "rmsprop", "adam"}) {
    CheckKeys({{"grafting", method}, {"start_preconditioning_step", "4"}, {"precondition_frequency", "2"}});
    CheckKeys({{"grafting", method},
               {"grafting_beta2", "0.9"},
               {"grafting_epsilon", "1e-3"},
               {"beta2", "0.95"},
               {"momentum", "0.8"},
               {"use_nesterov", "true"},
               {"weight_decay", "0.1"},
               {"start_preconditioning_step", "3"}});
  }
}

TEST_CASE("weight decay, momentum and bias correction have the same effect as on the CPU") {
  for (const Keys& decay : Combinations("weight_decay=0.2 weight_decay_type=decoupled|coupled")) {
    CheckKeys(decay);
    CheckKeys(decay + Keys("grafting=adagrad momentum=0.5"));
  }
  for (const char* nesterov : {"false", "true"}) {
    CheckKeys({{"momentum", "0.9"}, {"use_nesterov", nesterov}});
    CheckKeys({{"momentum", "0.9"}, {"use_nesterov", nesterov}, {"momentum_dampening", "0.25"}});
  }
  CheckKeys("drop_weighting=true");
  for (const Keys& correction : Combinations("use_bias_correction=false|true")) {
    for (const Keys& betas : Combinations("beta1=0|0.9 beta2=0.9|1")) {
      CheckKeys(correction + betas);
    }
    CheckKeys(correction + Keys("grafting=adam grafting_beta2=1"));
  }
}

TEST_CASE("blocks with dims that have no factor matrix take the same steps as on the CPU") {
  const Keys grafting = "grafting=sgd";
  for (const Keys& keys :
       {Keys("skip_dim_size=5"), Keys("skip_dim_size=6 precondition_1d=true"), Keys("skip_dim_size=3"),
        Keys("ignored_dims=2,1,3,1"), Keys("precondition_dims=smaller"), Keys("precondition_dims=larger")}) {
    CheckKeys(keys + Keys("grafting=adam precondition_frequency=2"));
    CheckKeys(keys + grafting + Keys("initial_inverse=identity precondition_frequency=4 beta1=0"));
    CheckKeys(keys + grafting + Keys("precondition_frequency=3 root_async=2"), 11);
    CheckKeys(keys + grafting + Keys("precondition_frequency=3 root_async=2 root_device=host"), 11);
  }
}

TEST_CASE("factor_correction=kl has the same effect as on the CPU") {
  const Keys kl = "factor_correction=kl epsilon=0.1 grafting=sgd";
  for (const Keys& keys :
       {Keys{}, Keys("skip_dim_size=6"), Keys("precondition_dims=smaller"), Keys("ignored_dims=3,1")}) {
    CheckKeys(kl + keys + Keys("precondition_frequency=2 grafting=adam"));
    CheckKeys(kl + keys + Keys("factor_update_frequency=2 weight_decay=0.1"), 9);
    CheckKeys(kl + keys + Keys("precondition_frequency=3 root_async=2"), 11);
    CheckKeys(kl + keys + Keys("precondition_frequency=3 root_async=2 root_device=host"), 11);
  }
}

TEST_CASE("with factor_correction=kl, a block is skipped as on the CPU if its whitened gradient is too large") {
  Course course{.steps = 9};
  course.spec.keys =
      "factor_correction=kl epsilon=1e-30 use_merge_dims=false precondition_frequency=2 grafting=adam root_async=1 "
      "on_nonfinite=skip_block refresh_growth=0 inverse_root_override=0 beta2=1";
  course.spec.params.assign(2, {{2, 2}, SHAMPOO_F32, SHAMPOO_F32, SHAMPOO_F32});
  course.gradient = [](int64_t t, size_t p, size_t elements) {
    std::vector<double> gradient(elements);
    // The inverse roots of factor matrices that accumulated only small gradients are about 1e6. Whitening multiplies a
    // gradient by these roots.
    const double scale = t % 3 == 1 && t > 5 && p == 0 ? 1e17 : 1e-12;
    for (size_t i = 0; i < elements; ++i)
      gradient[i] = scale * std::cos(static_cast<double>((i + 1) * (i + 2 * p)) * static_cast<double>(t));
    return gradient;
  };
  CHECK(Difference(course) == "");
  const Results results = Run(course, SHAMPOO_CUDA);
  for (const double value : results.Of("p0/0/factor.0")) CHECK(std::fabs(value) < 1);
}

TEST_CASE("the start and the frequency of preconditioning, and initial_inverse, have the same effect as on the CPU") {
  for (const char* initial : {"identity", "zero"}) {
    CheckKeys({{"initial_inverse", initial}, {"start_preconditioning_step", "5"}, {"precondition_frequency", "3"}});
    CheckKeys({{"initial_inverse", initial}, {"precondition_frequency", "3"}, {"momentum", "0.9"}});
  }
  CheckKeys("start_preconditioning_step=0");
  CheckKeys("start_preconditioning_step=20");
}

TEST_CASE("root_spread has the same effect as on the CPU") {
  const Keys spread = "root_spread=true";
  for (const Keys& keys : Combinations("initial_inverse=identity|zero grafting=none|rmsprop")) {
    CheckKeys(spread + keys + Keys("start_preconditioning_step=4 precondition_frequency=3"), 11);
  }
  // Blocks of one shape refresh their roots in different steps.
  const Keys phases = spread + Keys("precondition_frequency=4 epsilon=1e-3");
  CHECK(Difference({.spec = {phases, ParamsOf(Shapes(10, {4, 3}), SHAMPOO_F64)}, .steps = 12}) == "");
}

TEST_CASE("root_async has the same effect as on the CPU") {
  for (const Keys& async : Combinations("root_async=1|3 precondition_frequency=4")) {
    for (const char* method : {"eigen", "newton"}) {
      CheckKeys(async + Keys{{"root_method", method}, {"beta2", "0.9"}}, 13);
    }
    CheckKeys(async + Keys("factor_dtype=bf16 epsilon=40"), 13);
    CheckKeys(async + Keys("root_spread=true"), 15);
    const Keys on_host = async + Keys("root_device=host");
    for (const char* method : {"eigen", "newton", "higher_order", "cans"}) {
      CheckKeys(on_host + Keys{{"root_method", method}, {"beta2", "0.9"}}, 13);
    }
    CheckKeys(on_host + Keys("factor_dtype=bf16 inverse_dtype=bf16 epsilon=40"), 13);
    CheckKeys(on_host + Keys("root_spread=true root_dtype=f64"), 15);
  }
}

TEST_CASE("with every root method and many exponents, the device takes the same steps as the CPU") {
  CheckKeys("inverse_root_override=3");
  CheckKeys("inverse_root_override=0,1,3");
  CheckKeys("exponent_multiplier=1.5 inverse_root_override=0,2,4,7");
  CheckKeys("exponent_multiplier=-0.5");
  CheckKeys("root_method=newton");
  CheckKeys("root_method=cans epsilon=1e-2");
  CheckKeys("root_method=cans epsilon=1e-2 inverse_root_override=2");
  // Method `cans` cannot compute roots with the exponent -1/3, so method `eigen` computes them.
  CheckKeys("root_method=cans inverse_root_override=3 beta2=0.9");
  CheckKeys("root_method=newton inverse_root_override=3 beta2=0.9");
  for (const char* order : {"2", "3", "5"}) {
    CheckKeys({{"root_method", "higher_order"}, {"root_order", order}, {"epsilon", "1e-2"}});
  }
  CheckKeys("root_method=newton root_max_iterations=4 epsilon=30");
}

TEST_CASE("trace_scaling, which divides a factor matrix by a power of its trace, has the same effect as on the CPU") {
  for (const char* method : {"eigen", "newton", "higher_order", "cans"}) {
    const Keys roots = {{"root_method", method}, {"epsilon", "1e-2"}, {"beta2", "0.9"}};
    for (const char* exponent : {"0.5", "1"}) {
      const Keys keys = roots + Keys{{"trace_scaling", exponent}};
      CheckKeys(keys + Keys("precondition_frequency=2 grafting=adam"));
      CheckKeys(keys + Keys("epsilon=0 root_relative_epsilon=1e-2 precondition_1d=true"));
      const Keys async = "root_async=2 precondition_frequency=4";
      CheckKeys(keys + async, 13);
      CheckKeys(keys + async + Keys("root_device=host"), 13);
    }
  }
  // Here, the trace is less than epsilon.
  CheckKeys("trace_scaling=1 epsilon=1000 initial_inverse=identity");
  const Keys pseudo_inverse = "root_rank_handling=pseudo_inverse epsilon=0 root_rank_rtol=1e-5";
  CheckKeys(pseudo_inverse + Keys("trace_scaling=0.5 beta2=0.9"), 3);
}

TEST_CASE("a factor matrix is divided by a trace that float32 cannot represent, as on the CPU") {
  for (const char* method : {"eigen", "newton", "higher_order", "cans"}) {
    CAPTURE(std::string(method));
    const Keys keys = {{"trace_scaling", "1"}, {"epsilon", "1e-3"}, {"root_method", method}};
    Course course{.spec = {keys, {{{4, 4}}}}, .steps = 1, .tolerance = 1e-4};
    course.gradient = [](int64_t, size_t, size_t) {
      const double g = 1.4e19 / 4;  // the trace is 40 g^2, 4.9e38
      return std::vector<double>{3 * g, g, 0, 0, g, 3 * g, 0, 0, 0, 0, 3 * g, g, 0, 0, g, 3 * g};
    };
    CHECK(Difference(course) == "");
  }
}

TEST_CASE("pseudo-inverses of rank-deficient factor matrices are those of the CPU") {
  Course course;
  course.spec.keys = "root_rank_handling=pseudo_inverse epsilon=0 root_rank_rtol=1e-5";
  course.spec.params = {{{12, 5}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64}, {{9}, SHAMPOO_F32}};
  course.steps = 3;
  course.tolerance = 1e-4;
  CHECK(Difference(course) == "");
  course.spec.params.pop_back();
  course.tolerance = 0;
  CHECK(Difference(course) == "");
  course.spec.keys.push_back({"root_rank_atol", "3"});
  CHECK(Difference(course) == "");
}

TEST_CASE("gradient_scale has the same effect as on the CPU") {
  CheckKeys("gradient_scale=0.125 grafting=adam");
  CheckKeys("gradient_scale=-3 weight_decay=0.1 weight_decay_type=coupled");
}

}  // namespace
}  // namespace shampoo_test
