// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks the methods muon and sign, and the keys norm_control and weight_decay_type, with invariants and with numbers
// that are computed by hand.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/capi/behaviour/host.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

using MuonValues = std::vector<double>;

const char* const kNormControls[] = {"none", "hyperball", "relative", "radial_brake", "radial"};
const Keys kExactMuon = "method=muon orthogonalization=exact beta1=0 lr=1";

// Sets the gradient of the first parameter, makes a step, and returns the new value of this parameter.
MuonValues StepTo(Host* host, const MuonValues& gradient) {
  Host::Tensors& tensor = host->tensors[0];
  tensor.g = ArrayOf(tensor.g.dtype(), gradient);
  host->Step();
  return tensor.w.Values();
}

// Makes the first step of a float64 tensor, and returns its new value.
MuonValues FirstStepOf(const Keys& keys, const shampoo_param_desc& desc, const MuonValues& w, const MuonValues& g) {
  Host host(keys, {desc});
  host.tensors[0].w = ArrayOf(SHAMPOO_F64, w);
  return StepTo(&host, g);
}
MuonValues FirstStep(const Keys& keys, const std::vector<int64_t>& shape, const MuonValues& w, const MuonValues& g) {
  return FirstStepOf(keys, Param("w", shape, SHAMPOO_F64), w, g);
}

// Sets the parameter to 0, makes the first step, and returns the direction of this step. The learning rate must be 1.
MuonValues FirstDirection(const Keys& keys, const shampoo_param_desc& desc, const MuonValues& g) {
  return Scaled(FirstStepOf(keys, desc, MuonValues(g.size()), g), -1);
}

void CheckNear(const MuonValues& values, const MuonValues& expected, double tolerance = 1e-13) {
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(values[i] - expected[i]) <= tolerance * std::max(1.0, std::fabs(expected[i])));
  }
}

// Returns a 3 x 3 Householder reflection I - 2 v v^T.
MuonValues Reflection() {
  const MuonValues v = {1.0 / 3, 2.0 / 3, -2.0 / 3};
  MuonValues reflection(9);
  for (size_t i = 0; i < 9; ++i) reflection[i] = (i % 4 == 0 ? 1 : 0) - 2 * v[i / 3] * v[i % 3];
  return reflection;
}

MuonValues Transposed(const MuonValues& matrix, size_t rows) {
  const size_t columns = matrix.size() / rows;
  MuonValues turned(matrix.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) turned[j * rows + i] = matrix[i * columns + j];
  }
  return turned;
}

// Returns the parameters after four steps whose gradients are multiplied by 2^exponent.
std::vector<std::vector<char>> ParametersAfterScaledSteps(const Keys& keys, int32_t dtype, int exponent) {
  Host host(keys, {Param("w", {7, 5}, dtype), Param("u", {3, 2, 4}, dtype)});
  std::mt19937_64 random = host.FillFrom(17);
  for (int t = 0; t < 4; ++t) {
    host.FillGradients(random);
    for (Host::Tensors& tensor : host.tensors) {
      for (size_t i = 0; i < tensor.g.size(); ++i) tensor.g.Set(i, std::ldexp(tensor.g.Get(i), exponent));
    }
    host.Step();
  }
  return {host.tensors[0].w.bytes(), host.tensors[1].w.bytes()};
}

TEST_CASE(
    "multiplying gradients by a power of two changes no bit of the parameters that methods muon and sign compute") {
  std::vector<Keys> methods = {"method=sign lr=0.01", "method=muon ns_norm=schatten4 ns_coefficients=jordan",
                               "method=muon orthogonalization=exact update_norm=rms"};
  for (const char* const moment : {"none", "row", "short", "element"}) {
    methods.push_back({{"method", "muon"}, {"second_moment", moment}});
  }
  for (const Keys& method : methods) {
    CAPTURE_ALL(method);
    std::vector<std::vector<char>> without;
    for (const char* const control : kNormControls) {
      CAPTURE(control);
      const Keys keys = method + Keys{{"norm_control", control}, {"weight_decay", "0.1"}, {"cautious_decay", "true"}};
      for (const int32_t dtype : {SHAMPOO_F32, SHAMPOO_F64}) {
        const auto expected = ParametersAfterScaledSteps(keys, dtype, 0);
        CHECK(ParametersAfterScaledSteps(keys, dtype, 60) == expected);
        CHECK(ParametersAfterScaledSteps(keys, dtype, -60) == expected);
        if (dtype != SHAMPOO_F32) continue;
        if (without.empty()) without = expected;
        CHECK((expected == without) == (control == kNormControls[0]));
      }
      const Keys floor = keys + "update_floor=0.7 update_floor_rows=true";
      const auto expected = ParametersAfterScaledSteps(floor, SHAMPOO_F32, 0);
      CHECK(ParametersAfterScaledSteps(floor, SHAMPOO_F32, 60) == expected);
      CHECK(ParametersAfterScaledSteps(floor, SHAMPOO_F32, -60) == expected);
    }
  }
}

TEST_CASE("dual_norm_scale multiplies the direction by its inner product with the filtered gradient") {
  const Keys keys = kExactMuon + "dual_norm_scale=true";
  CheckNear(FirstDirection(keys, Param("w", {3, 3}, SHAMPOO_F64), Reflection()), Scaled(Reflection(), 3));
  const MuonValues row = {3, -1, 0, 2, 0.5};
  CheckNear(FirstDirection(keys, Param("w", {1, 5}, SHAMPOO_F64), row), row);
  CheckNear(FirstDirection(keys + "shape_scale=none", Param("w", {5, 1}, SHAMPOO_F64), row), row);
  // The bias of the filtered gradient is corrected unless use_bias_correction is false.
  const Keys sign = "method=sign dual_norm_scale=true beta1=0.75 lr=1";
  CheckNear(FirstDirection(sign, Param("w", {5}, SHAMPOO_F64), row), {6.5, -6.5, 0, 6.5, 6.5});
  CheckNear(FirstDirection(sign + "use_bias_correction=false", Param("w", {5}, SHAMPOO_F64), row),
            {1.625, -1.625, 0, 1.625, 1.625});
}

TEST_CASE("the first orthogonalized direction does not depend on use_bias_correction and beta1, which only scale H") {
  const MuonValues g = {2, 1, -1, 0.5, 3, 1};
  const shampoo_param_desc desc = Param("w", {2, 3}, SHAMPOO_F64);
  const Keys keys = "method=muon orthogonalization=exact lr=1";
  const MuonValues corrected = FirstDirection(keys, desc, g);
  CheckNear(FirstDirection(keys + "use_bias_correction=false", desc, g), corrected, 1e-12);
  CheckNear(FirstDirection(kExactMuon, desc, g), corrected, 1e-12);
  double product = 0;
  for (size_t j = 0; j < 3; ++j) product += corrected[j] * corrected[3 + j];
  CHECK(std::fabs(product) < 1e-13);
  CHECK(NormOf(corrected) == doctest::Approx(std::sqrt(2.0)));
}

TEST_CASE(
    "use_nesterov acts like beta3 = beta1^2, where beta3 is the weight of the old average in the filtered gradient") {
  const auto after = [](const Keys& more) {
    Host host("method=muon beta1=0.75" + more, {Param("w", {4, 3})});
    std::mt19937_64 random = host.FillFrom(5);
    for (int t = 0; t < 3; ++t) host.RandomStep(random);
    return host.tensors[0].w;
  };
  CHECK(after({}) == after("use_nesterov=true"));
  CHECK(after({}) == after("beta3=0.5625"));
  CHECK(after("use_nesterov=false") == after("beta3=0.75"));
  CHECK(!(after({}) == after("use_nesterov=false")));
  // The filtered gradient is H = 0.5 E + 0.5 G with the old average E, and then E <- 0.75 E + 0.25 G.
  Host host(Keys("method=sign beta1=0.75 beta3=0.5 lr=1 dual_norm_scale=true use_bias_correction=false"),
            {Param("w", {1}, SHAMPOO_F64)});
  CHECK(StepTo(&host, {2}) == MuonValues{-1});          // H = 1, E = 0.5
  CHECK(StepTo(&host, {-1}) == MuonValues{-1 + 0.25});  // H = -0.25, E = 0.125
  CHECK(StepTo(&host, {1}) == MuonValues{-0.75 - 0.5625});
  // With bias correction, H equals the gradient if all gradients are equal.
  Host constant(Keys("method=sign beta1=0.75 beta3=0.5 lr=1 dual_norm_scale=true"), {Param("w", {1}, SHAMPOO_F64)});
  for (int t = 1; t <= 4; ++t) CHECK(StepTo(&constant, {2})[0] == doctest::Approx(-2 * t).epsilon(1e-14));
}

TEST_CASE(
    "second_moment keeps mean squares of the direction: one for each row, for each index along the longer dim, or for "
    "each element") {
  const Keys keys = kExactMuon + "beta2=0.75 epsilon=0 shape_scale=none";
  const MuonValues first = {1, 0, 0, 0.6, 0, 0.8};  // 3 x 2 with orthonormal columns, so the direction is the gradient
  const MuonValues second = {0.6, 0, 0, 1, 0.8, 0};
  // The rows have the mean squares 0.5, 0.18 and 0.32 in the first step, and 0.18, 0.5 and 0.32 in the second step.
  const double v[] = {0.75 * 0.125 + 0.045, 0.75 * 0.045 + 0.125, 0.75 * 0.08 + 0.08};
  const double equal = std::sqrt(2.0 / 3);
  MuonValues divided = {0.6 / std::sqrt(v[0]), 0, 0, 1 / std::sqrt(v[1]), 0.8 / std::sqrt(v[2]), 0};
  divided = Scaled(divided, std::sqrt(2.0) / NormOf(divided));
  for (const char* const moment : {"row", "short"}) {
    CAPTURE(moment);
    const Keys with_moment = keys + Keys{{"second_moment", moment}};
    for (const bool is_turned : {false, true}) {  // a 2 x 3 array with SHAMPOO_IN_OUT stores the same matrix
      CAPTURE(is_turned);
      shampoo_param_desc desc =
          Param("w", is_turned ? std::vector<int64_t>{2, 3} : std::vector<int64_t>{3, 2}, SHAMPOO_F64);
      if (is_turned) desc.fan = SHAMPOO_IN_OUT;
      const auto stored = [&](const MuonValues& matrix) { return is_turned ? Transposed(matrix, 3) : matrix; };
      Host host(with_moment, {desc});
      MuonValues moved = Scaled(stored({equal, 0, 0, equal, 0, equal}), -1);
      CheckNear(StepTo(&host, stored(first)), moved);
      CheckNear(host.Read("w/0/direction_moment").Values(), {0.125, 0.045, 0.08});
      const MuonValues expected = stored(divided);
      for (size_t i = 0; i < 6; ++i) moved[i] -= expected[i];
      CheckNear(StepTo(&host, stored(second)), moved);
      CheckNear(host.Read("w/0/direction_moment").Values(), {v[0], v[1], v[2]});
    }
  }
  // For a wide matrix, second_moment=short has one mean for each column.
  Host wide(keys + "second_moment=short", {Param("w", {2, 3}, SHAMPOO_F64)});
  CheckNear(StepTo(&wide, Transposed(first, 3)), {-equal, 0, 0, 0, -equal, -equal});
  CHECK(wide.Read("w/0/direction_moment").size() == 3);
  Host of_rows(keys + "second_moment=row", {Param("w", {2, 3}, SHAMPOO_F64)});
  CheckNear(StepTo(&of_rows, Transposed(first, 3)), {-1, 0, 0, 0, -0.6, -0.8});
  CHECK(of_rows.Read("w/0/direction_moment").size() == 2);
  // With second_moment=element, the divided direction is not scaled back to its old norm. An element of the direction
  // is 0 if its second moment and epsilon are 0.
  const Keys by_element = keys + "second_moment=element";
  const shampoo_param_desc tall = Param("w", {3, 2}, SHAMPOO_F64);
  CheckNear(FirstDirection(by_element, tall, first), {2, 0, 0, 2, 0, 2});
  CheckNear(FirstDirection(by_element + "epsilon=0.5", tall, first), {1, 0, 0, 0.75, 0, 0.8 / 0.9});
}

TEST_CASE("a direction of 0 stays 0 with every value of second_moment") {
  for (const Keys& keys : Combinations("epsilon=0 weight_decay=0.25 second_moment=none|row|short|element")) {
    CAPTURE(keys);
    CHECK(FirstStep(kExactMuon + keys, {2, 2}, {1, -2, 4, 8}, {0, 0, 0, 0}) == MuonValues{0.75, -1.5, 3, 6});
  }
}

TEST_CASE("vectors, embeddings and heads in a group of method muon take the steps of method adam with adam_lr") {
  const Keys adam_keys = "adam_lr=0.01 adam_beta1=0.8 adam_beta2=0.97 adam_epsilon=1e-5";
  const Keys as_adam = "method=adam lr=0.01 beta1=0.8 beta2=0.97 epsilon=1e-5";
  // The group of method muon has these keys in addition to adam_keys. All of them except lr affect only matrices.
  const Keys of_matrices =
      "method=muon lr=0.25 second_moment=row update_norm=rms norm_control=radial update_floor=3 max_update_rms=0.1 "
      "shape_scale=sqrt_max";
  std::vector<Keys> decays =
      Combinations("weight_decay=0.01 weight_decay_type=decoupled|coupled|independent|palm|corrected|independent_peak");
  for (const char* const more :
       {"", "weight_decay=0.1 cautious_decay=true", "use_bias_correction=false gradient_scale=0.5"}) {
    decays.push_back(more);
  }
  std::vector<shampoo_param_desc> params = {Param("vector", {37}), Param("scalar", {}), Param("embedding", {9, 4}),
                                            Param("head", {4, 9}, SHAMPOO_F64), Param("stack", {3, 5})};
  params[2].role = SHAMPOO_EMBEDDING;
  params[3].role = SHAMPOO_HEAD;
  params[4].stack_dims = 1;
  std::vector<shampoo_param_desc> with_matrix = params;
  with_matrix.push_back(Param("matrix", {6, 5}));
  for (const Keys& decay : decays) {
    CAPTURE(decay);
    Host muon(of_matrices + adam_keys + decay, with_matrix);
    Host adam(as_adam + decay, params);
    std::mt19937_64 random = muon.FillFrom(8);
    adam.CopyParams(muon);
    const Array matrix = muon.tensors[5].w;
    for (const double lr : {0.25, 0.25, 0.125, 0.05, 0.0, 0.3}) {
      muon.Set("lr", lr);
      adam.Set("lr", 0.01 * (lr / 0.25));
      StepBoth(&muon, &adam, random);
      for (size_t p = 0; p < params.size(); ++p) {
        CAPTURE(p);
        CHECK(muon.tensors[p].w == adam.tensors[p].w);
      }
    }
    CHECK(muon.Read("embedding/0/second_moment") == adam.Read("embedding/0/second_moment"));
    CHECK(!(muon.tensors[5].w == matrix));
  }
}

TEST_CASE(
    "the learning rate of Adam is lr times adam_lr / peak_lr; with adam_lr=0, only independent decay changes a "
    "parameter") {
  const Keys keys = "method=muon lr=0.5 adam_lr=0.25 adam_epsilon=0";
  CheckNear(FirstStep(keys, {2}, {1, 1}, {3, -2}), {0.75, 1.25});
  CheckNear(FirstStep(keys + "peak_lr=2", {2}, {1, 1}, {3, -2}), {1 - 0.0625, 1 + 0.0625});
  for (const Keys& decay :
       Combinations("weight_decay=0.125 weight_decay_type=decoupled|coupled|palm|corrected|independent_peak")) {
    CAPTURE(decay);
    Host host(keys + decay + "adam_lr=0", {Param("w", {2}, SHAMPOO_F64)});
    host.tensors[0].w = ArrayOf(SHAMPOO_F64, {1, -1});
    CHECK(StepTo(&host, {3, -2}) == MuonValues{1, -1});
    CHECK(host.Stat("nonfinite_blocks") == 0);
  }
}

TEST_CASE("with route=off, method muon orthogonalizes embeddings and heads") {
  for (const int32_t role : {SHAMPOO_VECTOR, SHAMPOO_EMBEDDING, SHAMPOO_HEAD}) {
    shampoo_param_desc table = Param("w", {3, 4}, SHAMPOO_F64);
    const MuonValues g = {1, 2, 0, 1, 0, 1, 1, 0, 3, 0, 0, 1};
    const MuonValues hidden = FirstDirection(kExactMuon, table, g);
    table.role = role;
    CHECK(FirstDirection(kExactMuon + "route=off", table, g) == hidden);
    CHECK(FirstDirection(kExactMuon, table, g) != hidden);
  }
}

TEST_CASE("with method sign, weight decay follows the formula that docs/methods.md lists for weight_decay_type") {
  const struct {
    const char* type;
    double fraction;
  } kinds[] = {{"decoupled", 0.0625}, {"corrected", 0.03125}, {"independent_peak", 0.125},
               {"independent", 0.25}, {"palm", 0.015625},     {"coupled", 0}};
  const Keys keys = "method=sign weight_decay=0.25";
  for (const auto& kind : kinds) {
    CAPTURE(kind.type);
    const Keys of_kind = keys + Keys{{"weight_decay_type", kind.type}};
    const MuonValues expected = {2 - 2 * kind.fraction - 0.25, -4 + 4 * kind.fraction - 0.25};
    CHECK(FirstStep(of_kind + "lr=0.25 peak_lr=0.5", {2}, {2, -4}, {3, 2}) == expected);
    // With peak_lr=auto, the default, peak_lr is the value of lr at creation, even after lr has been changed.
    Host host(of_kind + "lr=0.5", {Param("w", {2}, SHAMPOO_F64)});
    host.Set("lr", 0.25);
    host.tensors[0].w = ArrayOf(SHAMPOO_F64, {2, -4});
    CHECK(StepTo(&host, {3, 2}) == expected);
    // Independent decay is the only type that does not depend on the learning rate.
    host.Set("lr", 0);
    const bool decays = kind.type == std::string("independent");
    CHECK(StepTo(&host, {1, -1}) == Scaled(expected, decays ? 0.75 : 1));
  }
  // Coupled decay is added to the gradient and therefore affects its sign.
  const Keys coupled = keys + "weight_decay_type=coupled lr=0.25";
  CHECK(FirstStep(coupled, {2}, {2, 2}, {-0.25, -0.75}) == MuonValues{1.75, 2.25});
}

TEST_CASE("with weight_decay_type=corrected, momentum accumulates the direction plus the decay") {
  Host host(Keys("method=sgd lr=0.25 peak_lr=0.5 weight_decay=0.25 weight_decay_type=corrected momentum=0.5"),
            {Param("w", {1}, SHAMPOO_F64)});
  host.tensors[0].w.Set(0, 2);
  CHECK(StepTo(&host, {1}) == MuonValues{1.6875});       // P = 1 + 0.125 * 2
  CHECK(StepTo(&host, {1}) == MuonValues{1.228515625});  // P = 1 + 0.125 * 1.6875 + 0.5 * 1.25
}

TEST_CASE(
    "with cautious_decay, an element decays if its direction is 0, but not if direction and value have opposite "
    "signs") {
  const MuonValues w = {1, -1, 1, -1, 0, 0, 2, -2};
  const MuonValues g = {1, 1, -1, -1, 1, 0, 0, 0};
  // Decay subtracts 0.125 times the element, and the direction moves an element by 0.5.
  const MuonValues expected = {0.375, -1.5, 1.5, -0.375, -0.5, 0, 1.75, -1.75};
  const Keys keys = "method=sign lr=0.5 peak_lr=0.25 cautious_decay=true";
  const struct {
    const char* type;
    const char* decay;
  } kinds[] = {{"decoupled", "0.25"},
               {"corrected", "0.125"},
               {"independent_peak", "0.0625"},
               {"independent", "0.125"},
               {"palm", "0.5"}};
  for (const auto& kind : kinds) {
    CAPTURE(kind.type);
    const Keys of_kind = keys + Keys{{"weight_decay_type", kind.type}, {"weight_decay", kind.decay}};
    CHECK(FirstStep(of_kind, {8}, w, g) == expected);
    // With norm_control, separate code applies the decay. This code must skip the same elements. If radial_outward and
    // radial_inward are 1, norm_control does not change the step.
    const Keys free = "norm_control=radial_brake radial_outward=1 radial_inward=1";
    CheckNear(FirstStep(of_kind + free, {2, 4}, w, g), expected);
  }
  // In float32, the product of the direction and the value of an element underflows here. The library must compare the
  // signs instead.
  Host tiny(Keys("method=sgd lr=0.5 weight_decay=0.25 cautious_decay=true"), {Param("w", {2})});
  const double number = std::ldexp(1, -100);
  tiny.tensors[0].w = ArrayOf(SHAMPOO_F32, {number, number});
  CHECK(StepTo(&tiny, {-number, number}) == MuonValues{1.5 * number, 0.375 * number});
}

// Makes a step that skips the update of the first parameter, and returns the error of the next step.
std::string ErrorAfterSkippedUpdate(Host* host) {
  const Array before = host->tensors[0].w;
  host->Step();
  CHECK(host->tensors[0].w == before);
  CHECK(host->Stat("nonfinite_blocks") == 1);
  host->CheckStepFails(SHAMPOO_E_NUMERIC, {});
  return shampoo_last_error();
}

TEST_CASE(
    "with norm_control=relative, or norm_control=hyperball without norm_radius, a parameter of zeros is not updated "
    "but reported") {
  for (const char* const method : {"muon", "sign", "sgd", "adam"}) {
    CAPTURE(method);
    const Keys keys = {{"method", method}, {"lr", "0.5"}};
    const auto control = [](const char* value) { return Keys{{"norm_control", value}}; };
    const MuonValues g = {1, 2, 3, -4, 5, 6};
    const MuonValues zeros(6);
    for (const std::string kind : {"hyperball", "relative"}) {
      CAPTURE(kind);
      Host host(keys + control(kind.c_str()), {Param("w", {2, 3})});
      host.tensors[0].g = ArrayOf(SHAMPOO_F32, g);
      const std::string error = ErrorAfterSkippedUpdate(&host);
      CHECK_MESSAGE(Has(error, {"block w/0 ", "the parameter is 0", "norm_control", kind.c_str()}), error);
      CHECK_MESSAGE((error.find("norm_radius") != std::string::npos) == (kind == "hyperball"), error);
    }
    const MuonValues radius = FirstStep(keys + control("hyperball") + "norm_radius=2", {2, 3}, zeros, g);
    CHECK(NormOf(radius) == doctest::Approx(2));
    const MuonValues ordinary = FirstStep(keys, {2, 3}, zeros, g);
    CHECK(NormOf(ordinary) > 0.4);
    CheckNear(FirstStep(keys + control("radial"), {2, 3}, zeros, g), ordinary);
    // The default of radial_outward is 0.5.
    CheckNear(FirstStep(keys + control("radial_brake"), {2, 3}, zeros, g), Scaled(ordinary, 0.5));
  }
}

TEST_CASE("with a direction of 0, only weight decay changes the norm; norm_control=hyperball undoes this change") {
  const MuonValues w = {3, 0, 0, 4};
  for (const Keys& keys : Combinations("method=muon|sign|sgd lr=0.5 radial_inward=0.5 "
                                       "norm_control=none|hyperball|relative|radial_brake|radial")) {
    CAPTURE(keys);
    CheckNear(FirstStep(keys, {2, 2}, w, {0, 0, 0, 0}), w);
    const bool returns = keys.Value("norm_control") == "hyperball";
    const MuonValues decayed = FirstStep(keys + "weight_decay=0.5", {2, 2}, w, {0, 0, 0, 0});
    CheckNear(decayed, returns ? w : MuonValues{2.25, 0, 0, 3});
  }
}

TEST_CASE("with weight decay, norm_control follows its formulas in docs/methods.md") {
  // Decay leaves W = (3, 0; 0, 4), whose norm is 5. The direction D = (0, 2; -1, 2) has norm 3, and <D, W> is 8.
  const Keys keys = "method=sgd lr=0.5 weight_decay=0.5";
  const MuonValues w = {4, 0, 0, 16.0 / 3};
  const MuonValues d = {0, 2, -1, 2};
  const auto after = [&](const Keys& more) { return FirstStep(keys + more, {2, 2}, w, d); };
  const auto moved = [&](double keep, double length) {
    return MuonValues{3 * keep, -2 * length, length, 4 * keep - 2 * length};
  };
  const auto scaled = [](const MuonValues& values, double norm) { return Scaled(values, norm / NormOf(values)); };
  CheckNear(after({}), moved(1, 0.5));
  CheckNear(after("norm_control=relative"), moved(1, 0.5 * 5 / 3));
  const double radius = 20.0 / 3;  // the norm before the decay
  CheckNear(after("norm_control=hyperball"), scaled(moved(1, 0.5 * radius / 3), radius));
  CheckNear(after("norm_control=hyperball norm_radius=2"), scaled(moved(1, 0.5 * 2 / 3), 2));
  const double free = NormOf(moved(1, 0.5));
  REQUIRE(free < 5);
  CheckNear(after("norm_control=radial_brake radial_inward=0.25"), scaled(moved(1, 0.5), 5 + 0.25 * (free - 5)));
  // The part of D along W is 8 / 25 W, of which a quarter remains.
  const double inward = 0.75 * 8 / 25;
  CheckNear(after("norm_control=radial radial_inward=0.25"),
            scaled(moved(1 + 0.5 * inward, 0.5), 5 - 0.5 * 0.25 * 8 / 5));
  // If the step moves the parameter away from the origin, radial_outward applies.
  const auto away = [&](const Keys& more) {
    return FirstStep(keys + more + "radial_outward=0.25", {2, 2}, w, Scaled(d, -1));
  };
  CheckNear(away("norm_control=radial"), scaled(moved(1 - 0.5 * inward, -0.5), 5 + 0.5 * 0.25 * 8 / 5));
  CheckNear(away("norm_control=radial_brake"), scaled(moved(1, -0.5), 5 + 0.25 * (NormOf(moved(1, -0.5)) - 5)));
}

TEST_CASE("update_floor lengthens the direction of a matrix or of its rows, but not the direction of a vector") {
  const Keys keys = "method=sgd lr=1 update_floor=0.5";
  const MuonValues w = {6, 0, 0, 8};  // the norm is 10
  CheckNear(FirstStep(keys, {2, 2}, w, {0, 3, 0.0, 0.4}),
            {6, -3 * 5 / std::hypot(3, 0.4), 0, 8 - 0.4 * 5 / std::hypot(3, 0.4)});
  CheckNear(FirstStep(keys, {2, 2}, w, {0, 3, 0, 4.5}), {6, -3, 0, 3.5});
  const Keys by_row = keys + "update_floor_rows=true";
  CheckNear(FirstStep(by_row, {2, 2}, w, {0, 1, 0, 5}), {6, -3, 0, 3});
  CheckNear(FirstStep(by_row, {2, 2}, w, {0, 0, 0, 1}), {6, 0, 0, 4});
  // update_floor_rows lengthens the direction of each output. An output is a row or, with SHAMPOO_IN_OUT, a column.
  shampoo_param_desc turned = Param("w", {2, 2}, SHAMPOO_F64);
  turned.fan = SHAMPOO_IN_OUT;
  CheckNear(FirstStepOf(by_row, turned, w, {0, 1, 0, 5}), {6, -1, 0, 3});
  CheckNear(FirstStepOf(by_row, turned, w, {1, 0, 0, 5}), {3, 0, 0, 3});
  CheckNear(FirstStep(keys, {4}, w, {0, 1, 0, 1}), {6, -1, 0, 7});
}

TEST_CASE("update_norm and max_update_rms are applied to a direction after dual_norm_scale") {
  // dual_norm_scale gives the reflection a norm of 3 sqrt(3), which is an RMS of sqrt(3).
  const auto of_norm = [](double norm) { return Scaled(Reflection(), norm / std::sqrt(3.0)); };
  const auto direction = [](const Keys& more) {
    return FirstDirection(kExactMuon + "dual_norm_scale=true" + more, Param("w", {3, 3}, SHAMPOO_F64), Reflection());
  };
  CheckNear(direction("max_update_rms=1"), of_norm(3));
  CheckNear(direction("max_update_rms=2"), of_norm(3 * std::sqrt(3.0)));
  CheckNear(direction("update_norm=frobenius update_norm_target=2"), of_norm(2));
  CheckNear(direction("shape_scale=sqrt_max"), of_norm(9));
}

TEST_CASE("max_update_rms limits the direction after update_norm and shape_scale, and a direction of 0 stays 0") {
  const Keys sgd = "method=sgd lr=1";
  const Keys limit = "max_update_rms=0.25";
  for (const Keys& norm :
       {Keys("update_norm=rms update_norm_target=0.5"), Keys("update_norm=frobenius update_norm_target=1")}) {
    CAPTURE(norm[0].second);
    const Keys keys = sgd + norm + "shape_scale=sqrt_max";
    const double root = std::sqrt(2.0);
    CheckNear(FirstStep(keys, {2, 2}, {0, 0, 0, 0}, {0, 3, 0, 4}), {0, -0.6 * root, 0, -0.8 * root});
    CheckNear(FirstStep(keys + limit, {2, 2}, {0, 0, 0, 0}, {0, 3, 0, 4}), {0, -0.3, 0, -0.4});
    Host host(keys + limit + "weight_decay=0.5", {Param("w", {2, 2}, SHAMPOO_F64)});
    host.tensors[0].w = ArrayOf(SHAMPOO_F64, {2, -4, 0, 8});
    CHECK(StepTo(&host, {0, 0, 0, 0}) == MuonValues{1, -2, 0, 4});
    CHECK(host.Stat("nonfinite_blocks") == 0);
  }
}

TEST_CASE("with norm_control=radial, a step that would go beyond the origin ends at the origin") {
  const Keys keys = "method=sgd norm_control=radial radial_inward=1";
  const MuonValues w = {3, 0, 0, 4};
  CheckNear(FirstStep(keys + "lr=0.5", {2, 2}, w, w), {1.5, 0, 0, 2});
  CheckNear(FirstStep(keys + "lr=2", {2, 2}, w, w), {0, 0, 0, 0});
}

TEST_CASE("norm_control=hyperball keeps the norm that the parameter had before the first update that was not skipped") {
  const Keys keys = "method=sgd lr=1 norm_control=hyperball";
  Host host(keys, {Param("w", {2, 2}, SHAMPOO_F16)});
  // With the kept norm of 120,000, the first element would be too large for float16, so this update is skipped.
  host.tensors[0].w = ArrayOf(SHAMPOO_F16, {60000, 60000, 60000, 60000});
  host.tensors[0].g = ArrayOf(SHAMPOO_F16, {-1, 0, 0, 0});
  ErrorAfterSkippedUpdate(&host);
  host.tensors[0].w = ArrayOf(SHAMPOO_F16, {3, 0, 0, 4});
  CHECK(NormOf(StepTo(&host, {-1, 0, 0, 0})) == doctest::Approx(5).epsilon(0.001));
  host.tensors[0].w = ArrayOf(SHAMPOO_F16, {1.5, 0, 0, 2});
  CHECK(NormOf(StepTo(&host, {-1, 0, 0, 0})) == doctest::Approx(5).epsilon(0.001));
}

TEST_CASE("if the iteration of muon diverges, the update is skipped, and the next step reports the parameter") {
  for (const char* const moment : {"none", "row", "short", "element"}) {
    CAPTURE(moment);
    const Keys keys =
        "method=muon ns_coefficients=1,-1,0;1e30,0,0 ns_steps=4 beta1=0 epsilon=0.5 norm_control=relative" +
        Keys{{"second_moment", moment}};
    Host host(keys, {Param("layer.weight", {2, 2}), Param("bias", {2})});
    host.FillFrom(1);
    // Both singular values become 0.35 in the first step of the iteration, and then infinite.
    host.tensors[0].g = ArrayOf(SHAMPOO_F32, {1, 0, 0, 1});
    host.tensors[1].g = ArrayOf(SHAMPOO_F32, {1, 1});
    const std::string error = ErrorAfterSkippedUpdate(&host);
    CHECK_MESSAGE(Has(error, {"block layer.weight/0 ", "not finite", "ns_coefficients"}), error);
    if (moment != std::string("none")) {
      for (const double value : host.Read("layer.weight/0/direction_moment").Values()) CHECK(value == 0);
    }
    // The only nonzero singular value becomes 0, so the direction is 0, and the run continues.
    host.tensors[0].g = ArrayOf(SHAMPOO_F32, {1, 0, 0, 0});
    host.Step();
    CHECK(host.Stat("nonfinite_blocks") == 1);
    host.Step();
  }
}

TEST_CASE("steps of a large matrix with norms and second moments are bit-identical for every number of threads") {
  const Keys floor = "update_floor=0.1 update_floor_rows=true weight_decay=0.1";
  for (const Keys& keys : {"method=muon second_moment=row norm_control=radial" + floor,
                           Keys("method=muon second_moment=element norm_control=hyperball"),
                           Keys("method=sign dual_norm_scale=true norm_control=radial_brake")}) {
    for (const int32_t fan : {SHAMPOO_OUT_IN, SHAMPOO_IN_OUT}) {
      CAPTURE_ALL(keys, fan);
      shampoo_param_desc large = Param("w", {420, 330});
      large.fan = fan;
      CheckThreads(keys, {large, Param("u", {64, 40})}, 2);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
