// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/capi/semantics/model.h"

namespace shampoo_test {
namespace {

const Keys kKeys = {
    {"grafting", "adam"}, {"momentum", "0.9"}, {"weight_decay", "0.1"},        {"precondition_frequency", "2"},
    {"lr", "0.125"},      {"epsilon", "1e-3"}, {"max_preconditioner_dim", "3"}};

// Two parameters; the gradients of step t are a function of t.
struct Run {
  explicit Run(Keys keys = kKeys) : model(keys, {Param("a", {4, 3}), Param("b", {5})}) {
    std::mt19937_64 random(1);
    for (auto& w : model.w) Fill(random, &w);
  }
  void Gradients(int t) {
    std::mt19937_64 random(static_cast<uint64_t>(100 + t));
    for (auto& g : model.g) Fill(random, &g);
  }
  void Bind(size_t p, const float* param, const float* grad, void* out, void* copy) {
    shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
    buffers.param = param;
    buffers.grad = grad;
    buffers.out = out;
    buffers.copy = copy;
    RequireOk(shampoo_optimizer_bind(model.optimizer, static_cast<int32_t>(p), 1, &buffers));
  }
  Model<float> model;
};

TEST_CASE("out-of-place steps with new buffers each time give the bits of in-place steps and leave param unchanged") {
  Run in_place;
  Run apart;
  for (int t = 0; t < 6; ++t) {
    in_place.Gradients(t);
    in_place.model.Step();
    apart.Gradients(t);
    std::vector<std::vector<float>> out = {std::vector<float>(12, -1), std::vector<float>(5, -1)};
    const auto before = apart.model.w;
    for (size_t p = 0; p < 2; ++p) {
      apart.Bind(p, apart.model.w[p].data(), apart.model.g[p].data(), out[p].data(), nullptr);
    }
    RequireOk(shampoo_optimizer_step(apart.model.optimizer, nullptr));
    for (size_t p = 0; p < 2; ++p) {
      CHECK(SameBits(before[p], apart.model.w[p]));
      CHECK(SameBits(out[p], in_place.model.w[p]));
    }
    apart.model.w = out;
  }
}

TEST_CASE("adding the updates to the parameters in float32 gives the bits of a step in place") {
  Run parameters;
  Keys keys = kKeys;
  keys.push_back({"output", "updates"});
  Run updates(keys);
  for (int t = 0; t < 6; ++t) {
    parameters.Gradients(t);
    parameters.model.Step();
    updates.Gradients(t);
    std::vector<std::vector<float>> out = {std::vector<float>(12), std::vector<float>(5)};
    for (size_t p = 0; p < 2; ++p) {
      updates.Bind(p, updates.model.w[p].data(), updates.model.g[p].data(), out[p].data(), nullptr);
    }
    RequireOk(shampoo_optimizer_step(updates.model.optimizer, nullptr));
    for (size_t p = 0; p < 2; ++p) {
      for (size_t i = 0; i < out[p].size(); ++i) updates.model.w[p][i] += out[p][i];
      CHECK(SameBits(updates.model.w[p], parameters.model.w[p]));
    }
  }
}

TEST_CASE("a parameter without a gradient has complete outputs: itself, zero updates, and its copy") {
  for (const bool as_updates : {false, true}) {
    Keys keys = kKeys;
    if (as_updates) keys.push_back({"output", "updates"});
    Run run(keys);
    run.Gradients(0);
    std::vector<float> out(5, -7);
    std::vector<float> copy(5, -7);
    run.Bind(0, run.model.w[0].data(), run.model.g[0].data(), run.model.w[0].data(), nullptr);
    run.Bind(1, run.model.w[1].data(), nullptr, out.data(), copy.data());
    RequireOk(shampoo_optimizer_step(run.model.optimizer, nullptr));
    CHECK(SameBits(out, as_updates ? std::vector<float>(5, 0) : run.model.w[1]));
    CHECK(SameBits(copy, run.model.w[1]));
  }
}

TEST_CASE("a copy in bfloat16 is the new parameter, rounded once") {
  shampoo_param_desc desc = Param("a", {4, 3});
  desc.copy_dtype = SHAMPOO_BF16;
  Model<float> model(kKeys, {desc});
  std::mt19937_64 random(5);
  Fill(random, &model.w[0]);
  Fill(random, &model.g[0]);
  std::vector<uint16_t> copy(12);
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = buffers.out = model.w[0].data();
  buffers.grad = model.g[0].data();
  buffers.copy = copy.data();
  RequireOk(shampoo_optimizer_bind(model.optimizer, 0, 1, &buffers));
  RequireOk(shampoo_optimizer_step(model.optimizer, nullptr));
  for (size_t i = 0; i < copy.size(); ++i) {
    const uint32_t bits = static_cast<uint32_t>(copy[i]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    CHECK(std::fabs(value - model.w[0][i]) <= std::ldexp(std::fabs(model.w[0][i]), -8));
    CHECK(value != 0);
  }
}

TEST_CASE("a learning rate gives the same bits whether it is set or bound as float32 or float64") {
  std::vector<std::vector<float>> results;
  for (int way = 0; way < 3; ++way) {
    Run run;
    float single = 0;
    double wide = 0;
    if (way == 1) RequireOk(shampoo_optimizer_bind_scalar(run.model.optimizer, 0, "lr", SHAMPOO_F32, &single));
    if (way == 2) RequireOk(shampoo_optimizer_bind_scalar(run.model.optimizer, 0, "lr", SHAMPOO_F64, &wide));
    for (int t = 0; t < 5; ++t) {
      single = 1.0f / static_cast<float>(1 << t);
      wide = static_cast<double>(single);
      if (way == 0) RequireOk(shampoo_optimizer_set(run.model.optimizer, 0, "lr", wide));
      run.Gradients(t);
      run.model.Step();
    }
    results.push_back(run.model.w[0]);
  }
  CHECK(SameBits(results[0], results[1]));
  CHECK(SameBits(results[0], results[2]));
  CHECK(!SameBits(results[0], Run().model.w[0]));
}

TEST_CASE("gradient_scale reverses the scaling of a loss, exactly for powers of two") {
  Run plain;
  Run scaled;
  RequireOk(shampoo_optimizer_set(scaled.model.optimizer, 0, "gradient_scale", 1.0 / 1024));
  for (int t = 0; t < 5; ++t) {
    plain.Gradients(t);
    plain.model.Step();
    scaled.Gradients(t);
    for (auto& g : scaled.model.g) {
      for (float& value : g) value *= 1024;
    }
    scaled.model.Step();
    CHECK(SameBits(plain.model.w[0], scaled.model.w[0]));
  }
}

TEST_CASE("scalars changed between steps take effect in the next step") {
  for (const char* key :
       {"beta1", "beta2", "epsilon", "momentum", "weight_decay", "grafting_beta2", "grafting_epsilon"}) {
    CAPTURE(key);
    Run changed;
    Run plain;
    for (int t = 0; t < 4; ++t) {
      if (t == 2) RequireOk(shampoo_optimizer_set(changed.model.optimizer, 0, key, 0.375));
      for (Run* run : {&changed, &plain}) {
        run->Gradients(t);
        run->model.Step();
      }
      if (t < 2) CHECK(SameBits(changed.model.w[0], plain.model.w[0]));
    }
    // Two steps later, because beta2 and epsilon take effect at the next refresh of the roots.
    CHECK(!SameBits(changed.model.w[0], plain.model.w[0]));
    double value = 0;
    RequireOk(shampoo_optimizer_get(changed.model.optimizer, 0, key, &value));
    CHECK(value == 0.375);
  }
}

}  // namespace
}  // namespace shampoo_test
