// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of shampoo_create, which creates an optimizer from tensors and a string of options, and of
// shampoo_config_parse, which sets keys from a string of options.
#include <cstring>
#include <vector>

#include "tests/capi/behaviour/host.h"

namespace shampoo_test {
namespace {

constexpr char kOptions[] = "lr=0.25 beta1=0.5 precondition_frequency=2 start_preconditioning_step=2";

struct Tensors {
  std::vector<float> weight{1, 2, 3, 4, 5, 6}, bias{7, 8};
  std::vector<float> weight_grad = std::vector<float>(6), bias_grad = std::vector<float>(2);
  shampoo_tensor tensors[2] = {{"weight", weight.data(), weight_grad.data(), 0, 2, {2, 3}, 0, 0, 0, 0},
                               {nullptr, bias.data(), bias_grad.data(), SHAMPOO_F32, 1, {2}, SHAMPOO_CPU, 0, 0, 0}};

  // Sets the gradients to those of half the squared norm of each parameter.
  void FillGradients() {
    weight_grad = weight;
    bias_grad = bias;
  }
};

// Creates and destroys an optimizer of the tensors, and returns the status of the creation.
shampoo_status Create(const Tensors& model, const char* options, int32_t count = 2) {
  shampoo_optimizer* opt = nullptr;
  const shampoo_status status = shampoo_create(&opt, options, model.tensors, count);
  CHECK((status == SHAMPOO_OK) == (opt != nullptr));
  shampoo_optimizer_destroy(opt);
  return status;
}

OptimizerPtr CreateFrom(const Tensors& model) {
  shampoo_optimizer* opt = nullptr;
  RequireOk(shampoo_create(&opt, kOptions, model.tensors, 2));
  return OptimizerPtr(opt);
}

TEST_CASE("an optimizer from shampoo_create and an optimizer from a config and a plan give bit-identical parameters") {
  Tensors simple, full;
  const OptimizerPtr first = CreateFrom(simple);

  shampoo_config* config = nullptr;
  RequireOk(shampoo_config_create(&config));
  const ConfigPtr owned_config(config);
  RequireOk(shampoo_config_parse(config, kOptions));
  const shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  shampoo_plan* handle = nullptr;
  RequireOk(shampoo_plan_create(&handle, config, &plan_desc));
  const PlanPtr plan(handle);
  AddParam(plan, Param("weight", {2, 3}));
  AddParam(plan, Param("param.1", {2}));
  RequireOk(shampoo_plan_finish(plan.get()));
  const OptimizerPtr second = MakeOptimizer(plan);
  shampoo_buffers buffers[2] = {SHAMPOO_BUFFERS_INIT, SHAMPOO_BUFFERS_INIT};
  buffers[0].param = buffers[0].out = full.weight.data(), buffers[0].grad = full.weight_grad.data();
  buffers[1].param = buffers[1].out = full.bias.data(), buffers[1].grad = full.bias_grad.data();
  RequireOk(shampoo_optimizer_bind(second.get(), 0, 2, buffers));

  for (int step = 0; step < 5; ++step) {
    simple.FillGradients();
    full.FillGradients();
    RequireOk(shampoo_optimizer_step(first.get(), nullptr));
    RequireOk(shampoo_optimizer_step(second.get(), nullptr));
    CHECK(simple.weight == full.weight);
    CHECK(simple.bias == full.bias);
    CHECK(simple.weight[5] < 6);
  }

  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT, other = SHAMPOO_STATE_ENTRY_INIT;
  int64_t count = 0, other_count = 0;
  RequireOk(shampoo_state_count(first.get(), &count));
  RequireOk(shampoo_state_count(second.get(), &other_count));
  REQUIRE(count == other_count);
  for (int64_t i = 0; i < count; ++i) {
    RequireOk(shampoo_state_describe(first.get(), i, &entry));
    RequireOk(shampoo_state_describe(second.get(), i, &other));
    CHECK(std::strcmp(entry.key, other.key) == 0);
  }
}

TEST_CASE("shampoo_create accepts options that are NULL or empty, and zero tensors") {
  Tensors model;
  CHECK(Create(model, nullptr) == SHAMPOO_OK);
  CHECK(Create(model, "") == SHAMPOO_OK);
  CHECK(Create(model, "lr=1", 0) == SHAMPOO_OK);
  shampoo_optimizer* opt = nullptr;
  RequireOk(shampoo_create(&opt, nullptr, nullptr, 0));
  RequireOk(shampoo_optimizer_step(opt, nullptr));
  shampoo_optimizer_destroy(opt);
}

TEST_CASE("a tensor without a gradient is unchanged until a gradient is bound") {
  Tensors model;
  model.tensors[0].grad = nullptr;
  const OptimizerPtr opt = CreateFrom(model);
  model.FillGradients();
  RequireOk(shampoo_optimizer_step(opt.get(), nullptr));
  CHECK(model.weight == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(model.bias[0] < 7);
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = buffers.out = model.weight.data(), buffers.grad = model.weight_grad.data();
  RequireOk(shampoo_optimizer_bind(opt.get(), 0, 1, &buffers));
  RequireOk(shampoo_optimizer_step(opt.get(), nullptr));
  CHECK(model.weight != std::vector<float>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("shampoo_create reports a wrong argument and creates no optimizer") {
  Tensors model;
  const auto refuses = [&](const char* options, const char* says, int32_t count = 2) {
    CAPTURE(says);
    CHECK(Create(model, options, count) == SHAMPOO_E_INVALID);
    CheckLastError({says});
  };
  refuses("lr", "options: key lr has no value");
  refuses("lrr=1", "did you mean lr");
  refuses("output=updates", "options: key output is updates: expected output=parameters");
  refuses("epsilon=1e-3 root_relative_epsilon=1e-3", "epsilon and root_relative_epsilon");
  model.tensors[1].dtype = 9;
  refuses("", "parameter \"param.1\": param_dtype is 9");
  model.tensors[1].dtype = 0;
  model.tensors[1].name = "weight";
  refuses("", "\"weight\"");
  model.tensors[1].name = nullptr;
  model.tensors[1].device_id = 1;
  refuses("", "expected all tensors on one device");
  model.tensors[1].device_id = 0;
  model.tensors[0].data = nullptr;
  refuses("", "parameter \"weight\": param is NULL");
  model.tensors[0].data = model.weight.data();
  refuses("", "count is -1", -1);
  CHECK(shampoo_create(nullptr, "", model.tensors, 2) == SHAMPOO_E_INVALID);
  CheckLastError({"out is NULL"});
  shampoo_optimizer* opt = nullptr;
  CHECK(shampoo_create(&opt, "", nullptr, 2) == SHAMPOO_E_INVALID);
  CheckLastError({"tensors is NULL"});
  CHECK(Create(model, kOptions) == SHAMPOO_OK);
}

TEST_CASE("tensor structs of a newer version are accepted if the unknown fields are 0") {
  struct Later {
    shampoo_tensor tensor;
    int64_t added;
  };
  Tensors model;
  Later later[2] = {{model.tensors[0], 0}, {model.tensors[1], 0}};
  const auto create = [&](size_t size) {
    shampoo_optimizer* opt = nullptr;
    const shampoo_status status = shampoo_create_sized(&opt, kOptions, &later[0].tensor, 2, size);
    shampoo_optimizer_destroy(opt);
    return status;
  };
  CHECK(create(sizeof(Later)) == SHAMPOO_OK);
  later[1].added = 1;
  CHECK(create(sizeof(Later)) == SHAMPOO_E_UNSUPPORTED);
  CheckLastError({"tensors[1] has a field that this version of the library does not know"});
  CHECK(create(sizeof(shampoo_tensor) - 1) == SHAMPOO_E_INVALID);
  CheckLastError({"tensor_size is"});
}

TEST_CASE("shampoo_config_parse sets all keys of a string or none") {
  shampoo_config* config = nullptr;
  RequireOk(shampoo_config_create(&config));
  RequireOk(shampoo_config_parse(config, "# of the last run\nlr = 0.5\nmomentum = 0.9  # heavy ball\n"));
  CHECK(std::string(shampoo_config_get(config, "lr")) == "0.5");
  CHECK(std::string(shampoo_config_get(config, "momentum")) == "0.9");
  CHECK(shampoo_config_parse(config, "lr=0.1\nmomentum=2") == SHAMPOO_E_INVALID);
  CheckLastError({"options, line 2: key momentum"});
  CHECK(std::string(shampoo_config_get(config, "lr")) == "0.5");
  CHECK(shampoo_config_parse(nullptr, "") == SHAMPOO_E_INVALID);
  CheckLastError({"config is NULL"});
  CHECK(shampoo_config_parse(config, nullptr) == SHAMPOO_E_INVALID);
  CheckLastError({"options is NULL"});
  shampoo_config_destroy(config);
}

}  // namespace
}  // namespace shampoo_test
