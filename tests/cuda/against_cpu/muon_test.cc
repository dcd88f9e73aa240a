// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares method muon on the device and on the CPU.
#include <algorithm>
#include <cmath>

#include "tests/cuda/against_cpu/course.h"
#include "tests/cuda/tools/stage.h"

namespace shampoo_test {
namespace {

// Wide, tall and square matrices, convolution kernels, stacked matrices, fused parameters, and parameters that method
// adam updates.
std::vector<ParamSpec> MuonParams(int32_t dtype) {
  std::vector<ParamSpec> params;
  const auto add = [&](const std::vector<int64_t>& shape) -> ParamSpec& {
    params.push_back({shape, dtype, dtype, dtype});
    return params.back();
  };
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{9, 7}, {7, 12}, {3, 4, 5}}) {
    add(shape);
    add(shape).fan = 1;
  }
  add({6, 6});  // a shape group of several matrices
  add({6, 6}).fan = 1;
  add({1, 5});
  add({2, 5, 4}).stack_dims = 1;
  add({12, 5}).row_splits = {4, 2, 6};
  ParamSpec& heads = add({5, 6});
  heads.row_splits = {3};
  heads.fan = 1;
  add({7});
  add({6, 6}).role = SHAMPOO_EMBEDDING;
  add({8, 3}).role = SHAMPOO_HEAD;
  return params;
}

const Keys kExact = "orthogonalization=exact";

void CheckMuonKeys(const Keys& keys, int64_t steps = 3) {
  const bool is_exact = keys.Value("orthogonalization") == "exact";
  for (const int32_t dtype : {SHAMPOO_F64, SHAMPOO_F32}) {
    INFO(keys, " dtype ", dtype);
    Course course{.spec = {Keys("method=muon adam_lr=0.01") + keys, MuonParams(dtype)}, .steps = steps};
    // The iteration of orthogonalization=newton_schulz amplifies rounding errors.
    if (dtype == SHAMPOO_F32 && !is_exact) course.tolerance = 1e-3;
    CHECK(Difference(course) == "");
  }
}

TEST_CASE("with several values of ns_coefficients and ns_norm, method muon takes the same steps as on the CPU") {
  for (const char* coefficients : {"polar_express", "jordan", "quintic", "cubic5", "2,-1.5,0.5", "3,-3.2,1.2;2,-1,0"}) {
    for (const char* steps : {"1", "5", "6"}) {
      CheckMuonKeys({{"ns_coefficients", coefficients}, {"ns_steps", steps}}, 2);
    }
    CheckMuonKeys({{"ns_coefficients", coefficients}, {"ns_norm", "schatten4"}}, 2);
  }
}

TEST_CASE("with several kinds of momentum, decay and scaling, method muon takes the same steps as on the CPU") {
  for (const char* nesterov : {"false", "true"}) {
    CheckMuonKeys({{"use_nesterov", nesterov}, {"weight_decay", "0.1"}});
    CheckMuonKeys({{"use_nesterov", nesterov}, {"beta1", "0"}, {"shape_scale", "rms_adam"}});
  }
  CheckMuonKeys("beta3=0.4 use_nesterov=false use_bias_correction=false");
  for (const char* type : {"coupled", "independent", "palm", "corrected", "independent_peak"}) {
    CheckMuonKeys(
        {{"weight_decay", "0.1"}, {"weight_decay_type", type}, {"peak_lr", "0.1"}, {"shape_scale", "spectral"}});
  }
  CheckMuonKeys("cautious_decay=true weight_decay=0.2 max_update_rms=0.2");
  for (const char* correction : {"false", "true"}) {
    CheckMuonKeys({{"dual_norm_scale", "true"}, {"use_bias_correction", correction}});
    CheckMuonKeys({{"dual_norm_scale", "true"}, {"use_bias_correction", correction}, {"ns_steps", "4"}});
  }
  CheckMuonKeys("update_norm=rms update_norm_target=0.3");
  for (const char* grafting : {"sgd", "adagrad", "rmsprop", "adam"}) {
    CheckMuonKeys({{"grafting", grafting}, {"start_preconditioning_step", "3"}, {"shape_scale", "none"}});
  }
}

TEST_CASE("matrices of several tiles take the same steps as on the CPU with method muon") {
  for (const Keys& keys : Combinations("method=muon second_moment=row|short|element ns_norm=frobenius|schatten4")) {
    CAPTURE(keys);
    Course course{.spec = {keys, {{{130, 70}}, {{70, 300}}, {{130, 70}}}}, .steps = 2, .tolerance = 1e-3};
    course.spec.params[2].fan = 1;
    CHECK(Difference(course) == "");
  }
}

// Large symmetric products are computed in panels of rows. The panels omit many elements above the diagonal.
TEST_CASE("method muon takes the same steps as on the CPU for large matrices") {
  const Stage stage;
  fake_cuda_set_protection(0);
  for (const char* coefficients : {"jordan", "cubic5"}) {
    const Keys keys = {{"method", "muon"}, {"ns_coefficients", coefficients}, {"ns_steps", "2"}};
    CHECK(Difference({.spec = {keys, {{{515, 520}}, {{520, 515}}}}, .steps = 1, .tolerance = 1e-3}) == "");
  }
}

TEST_CASE("products in bfloat16 give the same directions as on the CPU, except for rounding") {
  for (const Keys& keys :
       Combinations("method=muon ns_norm=frobenius|schatten4 ns_steps=4|5 dual_norm_scale=false|true")) {
    CAPTURE(keys);
    Course course{.spec = {keys, MuonParams(SHAMPOO_F32)}, .steps = 3};
    course.spec.params.push_back({{130, 70}});
    course.has_gradient = [](int64_t t, size_t p) { return t != 2 || p != 1; };
    const Results exact = Run(course, SHAMPOO_CPU);
    course.spec.keys.emplace_back("muon_math", "bf16");
    const Results rounded = Run(course, SHAMPOO_CUDA);
    REQUIRE(rounded.names == exact.names);
    double largest = 0;
    for (size_t i = 0; i < exact.names.size(); ++i) {
      if (exact.names[i].find('/') != std::string::npos) continue;
      CAPTURE(exact.names[i]);
      const double distance = Distance(rounded.values[i], exact.values[i]);
      CHECK(distance < (keys.Value("dual_norm_scale") == "true" ? 0.1 : 0.02));
      largest = std::max(largest, distance);
    }
    CHECK(largest > 1e-4);
  }
}

TEST_CASE("second moments of orthogonalized directions are those of the CPU") {
  for (const char* moment : {"row", "short", "element"}) {
    CheckMuonKeys({{"second_moment", moment}});
    CheckMuonKeys({{"second_moment", moment}, {"beta2", "0.9"}, {"epsilon", "0"}, {"shape_scale", "spectral"}});
    CheckMuonKeys({{"second_moment", moment}, {"beta2", "0.9"}, {"grafting", "adam"}});
    CheckMuonKeys({{"second_moment", moment}, {"norm_control", "hyperball"}});
  }
  CheckMuonKeys("second_moment=element beta2=1");
}

TEST_CASE("norms of parameters are those of the CPU with method muon") {
  for (const Keys& control : Combinations("norm_control=hyperball|relative|radial_brake|radial")) {
    for (const char* rows : {"false", "true"}) {
      CheckMuonKeys(control + Keys{{"weight_decay", "0.1"},
                                   {"update_floor", "0.3"},
                                   {"update_floor_rows", rows},
                                   {"cautious_decay", rows}});
    }
  }
}

TEST_CASE("with zero, tiny and huge gradients, method muon takes the same steps as on the CPU") {
  for (const Keys& keys :
       Combinations("method=muon second_moment=none|row|short|element ns_norm=frobenius|schatten4 grafting=none")) {
    for (const double scale : {1e-30, 1.0, 1e30}) {
      INFO(keys, ", scale ", scale);
      Course course{.spec = {keys, {{{5, 7}}, {{7, 5}}, {{5, 7}}}}, .steps = 4, .tolerance = 1e-3};
      course.gradient = [scale](int64_t t, size_t p, size_t elements) {
        std::vector<double> gradient(elements);
        // All gradients of step 1 and all gradients of matrix 2 are 0.
        if (p == 2 || t == 1) return gradient;
        for (size_t i = 0; i < elements; ++i) {
          gradient[i] = scale * (static_cast<double>(i / 7 + 1) * std::sin(static_cast<double>(i % 7 + 1)) +
                                 std::cos(static_cast<double>(i * i)));
        }
        return gradient;
      };
      CHECK(Difference(course) == "");
    }
  }
}

TEST_CASE("exact orthogonalization takes the same steps as on the CPU") {
  CheckMuonKeys(kExact, 6);
  for (const char* nesterov : {"false", "true"}) {
    CheckMuonKeys(kExact + Keys{{"use_nesterov", nesterov}, {"weight_decay", "0.1"}, {"shape_scale", "rms_adam"}});
    CheckMuonKeys(kExact + Keys{{"use_nesterov", nesterov}, {"dual_norm_scale", "true"}});
  }
  for (const char* moment : {"row", "short", "element"}) {
    CheckMuonKeys(kExact + Keys{{"second_moment", moment}, {"beta2", "0.9"}});
  }
  CheckMuonKeys(kExact + Keys("grafting=adam start_preconditioning_step=3 shape_scale=none"), 4);
  CheckMuonKeys(kExact + Keys("norm_control=hyperball update_floor=0.3"));
}

TEST_CASE("exact orthogonalization of matrices of several tiles takes the same steps as on the CPU") {
  const Stage stage;
  fake_cuda_set_protection(0);
  for (const int32_t dtype : {SHAMPOO_F32, SHAMPOO_F64}) {
    const std::vector<ParamSpec> params = ParamsOf({{130, 70}, {70, 300}, {130, 70}}, dtype);
    CHECK(Difference({.spec = {Keys("method=muon") + kExact, params}, .steps = 1}) == "");
  }
}

TEST_CASE("groups of method muon whose orthogonalization starts at different steps take the same steps as on the CPU") {
  Course course{.spec = {{{"method", "muon"}}, ParamsOf({{6, 5}, {6, 5}}, SHAMPOO_F64)}, .steps = 4};
  for (const char* start : {"1", "3"}) {
    course.spec.params[course.spec.groups.size()].group = static_cast<int32_t>(course.spec.groups.size()) + 1;
    course.spec.groups.push_back(
        {{"grafting", "adam"}, {"shape_scale", "none"}, {"start_preconditioning_step", start}});
  }
  CHECK(Difference(course) == "");
}

// The groups are in one batch, although their iterations compute in three dtypes.
TEST_CASE("groups with different orthogonalizations take the same steps alone and together") {
  const Keys groups[] = {{{"ns_steps", "6"}}, {{"muon_math", "bf16"}}, kExact, kExact + Keys("dual_norm_scale=true")};
  const Shapes shapes = {{9, 7}, {7, 12}, {6, 6}, {12, 5}};
  const auto results = [&](const std::vector<size_t>& chosen) {
    const Stage stage;
    ModelSpec spec;
    spec.keys = "method=muon computation_dtype=f32";
    for (size_t i = 0; i < chosen.size(); ++i) {
      spec.params.push_back({shapes[chosen[i]]});
      spec.params.push_back({shapes[chosen[i]]});
      spec.params[2 * i].group = spec.params[2 * i + 1].group = static_cast<int32_t>(i) + 1;
      spec.groups.push_back(spec.keys + groups[chosen[i]]);
    }
    Model model(spec);
    std::vector<std::vector<double>> params;
    for (size_t p = 0; p < spec.params.size(); ++p) model.SetParam(p, std::vector<double>(model.elements(p)));
    for (int step = 1; step <= 3; ++step) {
      for (size_t p = 0; p < spec.params.size(); ++p) {
        std::vector<double> gradient(model.elements(p));
        for (size_t i = 0; i < gradient.size(); ++i)
          gradient[i] = std::sin(static_cast<double>(i * i + p % 2) + static_cast<double>(step));
        model.SetGradient(p, gradient);
      }
      model.Step();
    }
    for (size_t p = 0; p < spec.params.size(); ++p) params.push_back(model.ParamValues(p));
    return params;
  };
  const auto together = results({0, 1, 2, 3});
  for (size_t g = 0; g < 4; ++g) {
    CAPTURE(g);
    const auto alone = results({g});
    CHECK(together[2 * g] == alone[0]);
    CHECK(together[2 * g + 1] == alone[1]);
    CHECK(alone[0] != std::vector<double>(alone[0].size()));
  }
}

// Returns a gradient with the singular values s. The vector s has min(rows, columns) elements.
std::vector<double> GradientOf(int64_t rows, int64_t columns, const std::vector<double>& s) {
  const auto reflected = [](int64_t n, int64_t i, int64_t j, double phase) {
    double square = 0;
    for (int64_t k = 0; k < n; ++k) square += std::pow(std::cos(static_cast<double>(k * k) + phase), 2);
    const double product = std::cos(static_cast<double>(i * i) + phase) * std::cos(static_cast<double>(j * j) + phase);
    return (i == j ? 1 : 0) - 2 * product / square;
  };
  std::vector<double> gradient(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      for (size_t k = 0; k < s.size(); ++k) {
        const auto at = static_cast<int64_t>(k);
        gradient[static_cast<size_t>(i * columns + j)] +=
            s[k] * reflected(rows, i, at, 0.3) * reflected(columns, at, j, 0.7);
      }
    }
  }
  return gradient;
}

// Returns a course of one step, with a wide, a tall and a square matrix. The direction is the orthogonalized gradient.
Course ExactCourse(int32_t dtype, const std::function<std::vector<double>(int64_t rows, int64_t columns)>& gradient) {
  const Shapes shapes = {{5, 7}, {7, 5}, {5, 5}};
  const Keys keys = Keys("method=muon beta1=0 weight_decay=0 lr=1") + kExact;
  return {.spec = {keys, ParamsOf(shapes, dtype)}, .steps = 1, .gradient = [=](int64_t, size_t p, size_t) {
            return gradient(shapes[p][0], shapes[p][1]);
          }};
}

TEST_CASE("exact orthogonalization gives the directions of the CPU for singular values of any size") {
  struct Spectrum {
    std::vector<double> values;
    double tolerance;  // allows for rounding errors of the gradient, which are proportional to its norm
  };
  for (const auto& [values, tolerance] : {Spectrum{{1, 1e-3, 1e-6, 1e-9, 1e-11}, 1e-4},
                                          {{1, 0.5, 1e-13, 1e-14, 1e-16}, 1e-11},
                                          {{1, 1, 1, 0, 0}, 1e-12},
                                          {{0, 0, 0, 0, 0}, 1e-12}}) {
    for (const double scale : {1e-30, 1.0, 1e30}) {
      INFO("second singular value ", values[1], ", scale ", scale);
      std::vector<double> scaled = values;
      for (double& value : scaled) value *= scale;
      Course course =
          ExactCourse(SHAMPOO_F64, [&](int64_t rows, int64_t columns) { return GradientOf(rows, columns, scaled); });
      course.tolerance = tolerance;
      CHECK(Difference(course) == "");
    }
  }
}

// Exact orthogonalization iterates in float64, and brings nonzero singular values to 1. Its error for small singular
// values is therefore far below the rounding error of float32.
TEST_CASE("for float32 matrices with small singular values, exact orthogonalization gives the directions of the CPU") {
  for (const double scale : {1e-30, 1.0, 1e30}) {
    CAPTURE(scale);
    const std::vector<double> values = {scale, 0.1 * scale, 1e-3 * scale, 1e-4 * scale, 1e-5 * scale};
    Course course =
        ExactCourse(SHAMPOO_F32, [&](int64_t rows, int64_t columns) { return GradientOf(rows, columns, values); });
    course.tolerance = 1e-6;
    CHECK(Difference(course) == "");
  }
}

TEST_CASE("for float32 matrices of zeros or of low rank, exact orthogonalization gives the directions of the CPU") {
  for (const int64_t rank : {0, 1, 3}) {
    for (const double scale : {1e-30, 1.0, 1e30}) {
      INFO("rank ", rank, ", scale ", scale);
      CHECK(Difference(ExactCourse(SHAMPOO_F32, [&](int64_t rows, int64_t columns) {
              std::vector<double> gradient(static_cast<size_t>(rows * columns));
              for (int64_t i = 0; i < rank; ++i) {
                gradient[static_cast<size_t>(i * columns + (i + 1) % 3)] = scale * static_cast<double>(i + 1);
              }
              return gradient;
            })) == "");
    }
  }
}

TEST_CASE("a direction is bit-identical if all gradients are multiplied by a power of two") {
  const auto params_after = [](double scale) {
    const Keys keys = "method=muon ns_norm=schatten4 second_moment=row";
    Course course{.spec = {keys, {{{5, 7}}, {{70, 9}}}}, .steps = 3};
    course.gradient = [scale](int64_t t, size_t p, size_t elements) {
      std::vector<double> gradient(elements);
      for (size_t i = 0; i < elements; ++i)
        gradient[i] = scale * static_cast<float>(std::sin(static_cast<double>(i * i + p + static_cast<size_t>(t))));
      return gradient;
    };
    const Results results = Run(course, SHAMPOO_CUDA);
    return std::vector<std::vector<double>>{results.Of("p0"), results.Of("p1")};
  };
  const auto plain = params_after(1);
  CHECK(params_after(0x1p60) == plain);
  CHECK(params_after(0x1p-60) == plain);
}

TEST_CASE("matrices that lack gradients in different steps take the same steps as on the CPU with method muon") {
  const Keys keys = "method=muon second_moment=short weight_decay=0.1";
  Course course{.spec = {keys, ParamsOf({{6, 4}, {6, 4}, {6, 4}, {6, 4}, {4}}, SHAMPOO_F64)}, .steps = 7};
  course.has_gradient = [](int64_t t, size_t p) { return (t + static_cast<int64_t>(p)) % 3 != 0; };
  CHECK(Difference(course) == "");
}

TEST_CASE("with several state dtypes and a learning rate schedule, method muon takes the same steps as on the CPU") {
  for (const char* dtype : {"bf16", "f16", "f32"}) {
    const Keys keys = {{"method", "muon"},
                       {"filtered_grad_dtype", dtype},
                       {"second_moment", "element"},
                       {"second_moment_dtype", dtype},
                       {"beta2", "0.9"},
                       {"allow_stalled_moments", "true"}};
    Course course{.spec = {keys, MuonParams(SHAMPOO_F32)}, .steps = 4, .tolerance = 3e-2};
    course.before = [](int64_t t, Model* model) {
      Must(shampoo_optimizer_set(model->optimizer, 0, "lr", 0.1 / static_cast<double>(t)));
      Must(shampoo_optimizer_set(model->optimizer, 0, "adam_lr", 0.01));
    };
    CHECK(Difference(course) == "");
  }
}

}  // namespace
}  // namespace shampoo_test
