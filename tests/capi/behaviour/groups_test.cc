// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of parameter groups.
#include <memory>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

const Keys kFirst = "lr=0.5 grafting=adam precondition_frequency=2 momentum=0.5";
const Keys kSecond =
    "lr=0.25 grafting=sgd beta2=0.9 weight_decay=0.1 weight_decay_type=coupled factor_dtype=bf16 initial_inverse=zero "
    "precondition_frequency=3";
const Keys kThird = "beta1=0 output=updates max_preconditioner_dim=2";

std::vector<shampoo_param_desc> ParamsOf(int32_t group) {
  static constexpr const char* kNames[][2] = {{"a", "a2"}, {"b", "b2"}, {"c", "c2"}};
  std::vector<shampoo_param_desc> params = {Param(kNames[group][0], {4, 3}), Param(kNames[group][1], {5})};
  for (shampoo_param_desc& param : params) param.group = group;
  return params;
}

// Holds one optimizer of three groups (`all`), and for each group a separate optimizer of this group (`alone`). Step()
// makes the same step with all optimizers and checks that the results of `all` and `alone` are bit-identical.
struct Together {
  Together() : all({kFirst, kSecond, kThird}, Interleaved(), 2) {
    int32_t group = 0;
    for (const Keys& keys : {kFirst, kSecond, kThird}) {
      std::vector<shampoo_param_desc> params = ParamsOf(group++);
      for (shampoo_param_desc& param : params) param.group = 0;
      alone.push_back(std::make_unique<Host>(keys, params));
    }
    all.FillFrom(1);
    for (size_t g = 0; g < 3; ++g) {
      for (size_t p = 0; p < 2; ++p) alone[g]->tensors[p].w = all.tensors[At(g, p)].w;
    }
    for (Host::Tensors& tensor : all.tensors) tensor.separate = true;
    for (auto& host : alone) {
      for (Host::Tensors& tensor : host->tensors) tensor.separate = true;
    }
  }
  // Returns the index in `all` of parameter `param` of a group. The parameters of `all` are a, b, c, a2, b2 and c2: the
  // first of each group, then the second of each group.
  static size_t At(size_t group, size_t param) { return param * 3 + group; }
  static std::vector<shampoo_param_desc> Interleaved() {
    std::vector<shampoo_param_desc> params;
    for (size_t p = 0; p < 2; ++p) {
      for (int32_t group = 0; group < 3; ++group) params.push_back(ParamsOf(group)[p]);
    }
    return params;
  }
  void Step(uint64_t seed) {
    std::mt19937_64 random(seed);
    all.FillGradients(random);
    for (size_t g = 0; g < 3; ++g) {
      for (size_t p = 0; p < 2; ++p) {
        alone[g]->tensors[p].g = all.tensors[At(g, p)].g;
        alone[g]->tensors[p].has_grad = all.tensors[At(g, p)].has_grad;
      }
      alone[g]->Step();
    }
    all.Step();
    for (size_t g = 0; g < 3; ++g) {
      for (size_t p = 0; p < 2; ++p) {
        CHECK(alone[g]->tensors[p].w == all.tensors[At(g, p)].w);
        CHECK(alone[g]->tensors[p].out == all.tensors[At(g, p)].out);
      }
      CHECK(alone[g]->Steps(0) == all.Steps(static_cast<int>(g)));
      CHECK(all.Stat(("step." + std::to_string(g)).c_str()) == all.Steps(static_cast<int>(g)));
      for (const Host::Entry& entry : alone[g]->Entries()) {
        const std::string key = entry.info.key;
        if (key.rfind("group.", 0) != 0) CHECK_MESSAGE(alone[g]->Read(entry) == all.Read(key), key);
      }
    }
  }

  Host all;
  std::vector<std::unique_ptr<Host>> alone;
};

TEST_CASE("each group of one optimizer is bit-identical to a separate optimizer") {
  Together both;
  for (uint64_t t = 0; t < 7; ++t) both.Step(t);
}

TEST_CASE("a group or a parameter without gradients is unchanged while the others are updated") {
  Together both;
  for (uint64_t t = 0; t < 12; ++t) {
    both.all.tensors[Together::At(1, 0)].has_grad = t % 3 != 1;
    both.all.tensors[Together::At(1, 1)].has_grad = t % 2 == 0;
    both.all.tensors[Together::At(2, 0)].has_grad = t > 4;
    both.all.tensors[Together::At(2, 1)].has_grad = false;
    both.Step(t);
  }
  CHECK(both.all.Steps(0) == 12);
  CHECK(both.all.Steps(1) == 10);  // group 1 has no gradient if t is 1 or 7
  CHECK(both.all.Steps(2) == 7);
  CHECK(both.all.Stat("steps") == 12);
}

TEST_CASE("a step without any gradient increases the statistic named steps, but not the step counters of groups") {
  Host host(kFirst, {Param("w", {3, 2})});
  std::mt19937_64 random = host.FillFrom(2);
  host.RandomStep(random);
  host.tensors[0].has_grad = false;
  const auto before = host.Everything();
  host.Step();
  CHECK(host.Everything() == before);
  CHECK(host.Stat("steps") == 2);
}

TEST_CASE("a scalar that is bound to one group does not change the other groups") {
  Together both;
  float lr = 0;
  double scale = 0;
  RequireOk(shampoo_optimizer_bind_scalar(both.all.optimizer, 2, "lr", SHAMPOO_F32, &lr));
  RequireOk(shampoo_optimizer_bind_scalar(both.all.optimizer, 1, "gradient_scale", SHAMPOO_F64, &scale));
  for (uint64_t t = 0; t < 6; ++t) {
    lr = 0.0625f * static_cast<float>(t);
    scale = 1.5 - 0.25 * static_cast<double>(t);
    RequireOk(shampoo_optimizer_set(both.alone[2]->optimizer, 0, "lr", static_cast<double>(lr)));
    RequireOk(shampoo_optimizer_set(both.alone[1]->optimizer, 0, "gradient_scale", scale));
    for (shampoo_optimizer* optimizer : {both.all.optimizer, both.alone[0]->optimizer}) {
      RequireOk(shampoo_optimizer_set(optimizer, 0, "beta1", 0.5 / static_cast<double>(t + 1)));
    }
    // The next step uses the bound scalar lr instead of this value.
    RequireOk(shampoo_optimizer_set(both.all.optimizer, 2, "lr", 1000));
    both.Step(t);
    CHECK(both.all.Get("lr", 2) == static_cast<double>(lr));
  }
  for (const char* const key : {"beta1", "weight_decay"}) {
    double value = 0;
    RequireOk(shampoo_optimizer_bind_scalar(both.all.optimizer, 0, key, SHAMPOO_F64, &value));
    for (uint64_t t = 50; t < 53; ++t) {
      value = 0.25 * static_cast<double>(t - 49);
      RequireOk(shampoo_optimizer_set(both.alone[0]->optimizer, 0, key, value));
      both.Step(t);
    }
    RequireOk(shampoo_optimizer_bind_scalar(both.all.optimizer, 0, key, 0, nullptr));
  }
  RequireOk(shampoo_optimizer_bind_scalar(both.all.optimizer, 2, "lr", 0, nullptr));
  lr = 77;
  both.Step(100);  // lr is no longer bound: this step uses the value that the previous step read
  RequireOk(shampoo_optimizer_set(both.all.optimizer, 2, "lr", 0.75));
  RequireOk(shampoo_optimizer_set(both.alone[2]->optimizer, 0, "lr", 0.75));
  both.Step(101);
}

TEST_CASE("shampoo_optimizer_get returns the value of a key in each group, whether the key is set or has its default") {
  Host host({Keys("grafting=rmsprop precondition_frequency=4"), Keys("grafting=adam start_preconditioning_step=9"),
             Keys("grafting=adagrad use_nesterov=true start_preconditioning_step=0")},
            {Param("w", {2})}, 3);
  const double beta2[] = {0.99, 0.999, 1};
  const double epsilon[] = {1e-8, 1e-8, 1e-10};
  const double start[] = {4, 9, 1};
  const double frequency[] = {4, 1, 1};
  for (int32_t group = 0; group < 3; ++group) {
    const auto at = static_cast<size_t>(group);
    CHECK(host.Get("grafting_beta2", group) == beta2[at]);
    CHECK(host.Get("grafting_epsilon", group) == epsilon[at]);
    CHECK(host.Get("start_preconditioning_step", group) == start[at]);
    CHECK(host.Get("precondition_frequency", group) == frequency[at]);
    CHECK(host.Get("use_nesterov", group) == (group == 2 ? 1 : 0));
    CHECK(host.Get("use_bias_correction", group) == 1);
    CHECK(host.Get("threads", group) == 3);
    CHECK(host.Get("max_preconditioner_dim", group) == 1024);
  }
}

TEST_CASE("the statistic step.<group> equals the step counter in the state; an unknown group is an error") {
  Together together;
  for (uint64_t seed = 1; seed <= 3; ++seed) together.Step(seed);
  CHECK(together.all.Stat("step.2") == 3);
  together.all.WriteValues("group.1/step", {41});
  CHECK(together.all.Stat("step.1") == 41);
  CHECK(together.all.Stat("steps") == 3);
  for (const std::string key :
       {"step.3", "step.", "step.-0", "step.00", "step.-1", "step.1x", "step.99999999999999999999", "step"}) {
    double value = 7;
    CHECK(shampoo_optimizer_stat(together.all.optimizer, key.c_str(), &value) == SHAMPOO_E_INVALID);
    CHECK(value == 7);
    CheckLastError({("\"" + key + "\"").c_str(), key == "step" ? "step.<group>" : "expected step.0 to step.2"});
  }
}

}  // namespace
}  // namespace shampoo_test
