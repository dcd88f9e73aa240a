// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "tests/capi/behaviour/host.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

// A reference for the steps of a parameter of one element, computed in long double. Each step reads all scalars again.
// A scalar is a key that shampoo_optimizer_set can change.
struct OneElement {
  using Real = long double;
  std::map<std::string, Real> scalar = {
      {"lr", 0.125L},       {"beta1", 0.5L},         {"beta2", 0.75L},         {"epsilon", 0.0625L},
      {"momentum", 0.5L},   {"weight_decay", 0.25L}, {"grafting_beta2", 0.5L}, {"grafting_epsilon", 0.125L},
      {"gradient_scale", 2}};
  bool nesterov = false, coupled = false, corrected = true;
  std::string grafting = "adam";
  int t = 0;
  Real w = 1.5L, f = 0, v = 0, e = 0, m = 0;

  void Step(Real g) {
    ++t;
    g *= scalar["gradient_scale"];
    const Real decay = scalar["weight_decay"];
    if (coupled) g += decay * w;
    const Real b1 = scalar["beta1"], b2 = scalar["beta2"], bg = scalar["grafting_beta2"], mu = scalar["momentum"];
    f = b2 * f + (b2 == 1 ? 1 : 1 - b2) * g * g;
    v = bg * v + (bg == 1 ? 1 : 1 - bg) * g * g;
    const Real a = f / (corrected && b2 < 1 ? 1 - std::pow(b2, static_cast<Real>(t)) : 1);
    const Real x = 1 / std::sqrt(a + scalar["epsilon"]);
    Real h = g;
    if (b1 != 0) {
      e = b1 * e + (1 - b1) * g;
      h = e / (corrected ? 1 - std::pow(b1, static_cast<Real>(t)) : 1);
    }
    Real d = h;
    if (grafting == "adam" || grafting == "rmsprop") {
      const Real c = grafting == "adam" && bg < 1 ? 1 - std::pow(bg, static_cast<Real>(t)) : 1;
      d = h / (std::sqrt(v / c) + scalar["grafting_epsilon"]);
    }
    Real p = x * h;
    if (grafting != "none") p *= std::fabs(d) / (std::fabs(p) + 1e-16L);
    if (!coupled) p += decay * w;
    if (mu != 0) {
      m = mu * m + p;
      p = nesterov ? p + mu * m : m;
    }
    w -= scalar["lr"] * p;
  }
};

// Checks 16 steps against the reference. `changes` maps a step, counted from 0, to the scalar that is changed just
// before this step, and the new value of the scalar.
void CheckSchedule(OneElement reference, const std::map<int, std::pair<std::string, double>>& changes) {
  Keys keys = {{"grafting", reference.grafting},
               {"use_nesterov", reference.nesterov ? "true" : "false"},
               {"weight_decay_type", reference.coupled ? "coupled" : "decoupled"},
               {"use_bias_correction", reference.corrected ? "true" : "false"}};
  const ConfigPtr config = MakeConfig(keys);
  for (const auto& [key, value] : reference.scalar) {
    RequireOk(shampoo_config_set_f64(config.get(), key.c_str(), static_cast<double>(value)));
    keys.emplace_back(key, shampoo_config_get(config.get(), key.c_str()));
  }
  Host host(keys, {Param("w", {}, SHAMPOO_F64)});
  host.tensors[0].w.Set(0, static_cast<double>(reference.w));
  std::mt19937_64 random(5);
  for (int t = 0; t < 16; ++t) {
    const auto change = changes.find(t);
    if (change != changes.end()) {
      const auto& [key, value] = change->second;
      RequireOk(shampoo_optimizer_set(host.optimizer, 0, key.c_str(), value));
      reference.scalar[key] = value;
    }
    host.FillGradients(random);
    reference.Step(host.tensors[0].g.Get(0));
    host.Step();
    REQUIRE(host.tensors[0].w.Get(0) == doctest::Approx(static_cast<double>(reference.w)).epsilon(1e-12));
  }
}

TEST_CASE("a changed scalar takes effect in the next step") {
  const std::map<std::string, std::vector<double>> values = {{"lr", {0, 0.5, 3}},
                                                             {"beta1", {0, 0.25, 0.875}},
                                                             {"beta2", {0.25, 1, 0.875}},
                                                             {"epsilon", {1e-12, 4, 1e3}},
                                                             {"momentum", {0, 0.25, 0.875}},
                                                             {"weight_decay", {0, 0.5, 1}},
                                                             {"grafting_beta2", {0.25, 1, 0.875}},
                                                             {"grafting_epsilon", {1e-8, 2, 1e3}},
                                                             {"gradient_scale", {1, -3, 0.25}}};
  for (const char* grafting : {"none", "sgd", "rmsprop", "adam"}) {
    for (int bits = 0; bits < 8; ++bits) {
      OneElement reference;
      reference.grafting = grafting;
      reference.nesterov = (bits & 1) != 0;
      reference.coupled = (bits & 2) != 0;
      reference.corrected = (bits & 4) != 0;
      CAPTURE_ALL(grafting, bits);
      for (const auto& [key, list] : values) {
        CAPTURE(key);
        CheckSchedule(reference, {{3, {key, list[0]}}, {7, {key, list[1]}}, {11, {key, list[2]}}});
      }
    }
  }
}

TEST_CASE("if nine scalars are changed one after another, each change takes effect") {
  CheckSchedule({}, {{1, {"lr", 0.5}},
                     {3, {"beta1", 0.75}},
                     {4, {"gradient_scale", 0.5}},
                     {6, {"epsilon", 0.5}},
                     {7, {"momentum", 0.75}},
                     {9, {"weight_decay", 0.5}},
                     {10, {"beta2", 1}},
                     {12, {"grafting_epsilon", 0.5}},
                     {13, {"grafting_beta2", 0.875}},
                     {15, {"gradient_scale", 0}}});
}

TEST_CASE("gradient_scale undoes a scaling of the loss, without rounding errors if the scale is a power of two") {
  const Keys keys = "grafting=adam momentum=0.9 epsilon=1e-3";
  Host plain(keys, {Param("w", {4, 3})});
  Host scaled(keys + "gradient_scale=0.0009765625", {Param("w", {4, 3})});
  std::mt19937_64 random = plain.FillFrom(1);
  scaled.tensors[0].w = plain.tensors[0].w;
  for (int t = 0; t < 5; ++t) {
    plain.FillGradients(random);
    for (size_t i = 0; i < 12; ++i) scaled.tensors[0].g.Set(i, 1024 * plain.tensors[0].g.Get(i));
    plain.Step();
    scaled.Step();
    CHECK(plain.tensors[0].w == scaled.tensors[0].w);
  }
}

}  // namespace
}  // namespace shampoo_test
