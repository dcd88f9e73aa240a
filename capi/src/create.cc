// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The first tier of the API: an optimizer from tensors and a text of options, made with the functions of the second.
#include <memory>
#include <string>
#include <vector>

#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"
#include "core/config/option_text.h"

namespace shampoo {
namespace {

template <auto Destroy>
struct Deleter {
  template <typename Object>
  void operator()(Object* object) const {
    Destroy(object);
  }
};
using ConfigOwner = std::unique_ptr<shampoo_config, Deleter<shampoo_config_destroy>>;
using PlanOwner = std::unique_ptr<shampoo_plan, Deleter<shampoo_plan_destroy>>;
using OptimizerOwner = std::unique_ptr<shampoo_optimizer, Deleter<shampoo_optimizer_destroy>>;

std::string TensorText(int32_t index) { return Cat("tensors[", index, "]"); }

Status ReadTensors(const shampoo_tensor* tensors, int32_t count, size_t tensor_size, std::vector<shampoo_tensor>* own) {
  if (count < 0) return Invalid("count is ", count, ": expected at least 0");
  if (count > 0) SHAMPOO_RETURN_IF_ERROR(RequireArgument(tensors, "tensors"));
  if (tensor_size < sizeof(shampoo_tensor)) {
    return Invalid("tensor_size is ", tensor_size, ": expected sizeof(shampoo_tensor), at least ",
                   sizeof(shampoo_tensor));
  }
  own->resize(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    const char* const tensor = reinterpret_cast<const char*>(tensors) + static_cast<size_t>(i) * tensor_size;
    shampoo_tensor& one = (*own)[static_cast<size_t>(i)];
    SHAMPOO_RETURN_IF_ERROR(CopyStruct(tensor, tensor_size, TensorText(i), &one));
    if (one.dtype == 0) one.dtype = SHAMPOO_F32;
    if (one.device_type == 0) one.device_type = SHAMPOO_CPU;
    const shampoo_tensor& first = own->front();
    if (one.device_type != first.device_type || one.device_id != first.device_id) {
      return Invalid(TensorText(i), " is on device type ", one.device_type, ", device ", one.device_id,
                     ", and tensors[0] on device type ", first.device_type, ", device ", first.device_id,
                     ": expected all tensors on one device");
    }
  }
  return {};
}

shampoo_param_desc DescribeParam(const shampoo_tensor& tensor, const std::string& name) {
  shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
  param.name = name.c_str();
  param.ndim = tensor.ndim;
  std::copy(std::begin(tensor.shape), std::end(tensor.shape), param.shape);
  param.param_dtype = tensor.dtype;
  param.grad_dtype = tensor.dtype;
  return param;
}

// Makes the plan of all tensors.
shampoo_status CreatePlan(const shampoo_config* config, const std::vector<shampoo_tensor>& tensors, PlanOwner* plan) {
  shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  if (!tensors.empty()) desc.device_type = tensors.front().device_type;
  shampoo_plan* made = nullptr;
  shampoo_status status = shampoo_plan_create(&made, config, &desc);
  plan->reset(made);
  for (size_t i = 0; status == SHAMPOO_OK && i < tensors.size(); ++i) {
    const std::string name = tensors[i].name != nullptr ? std::string(tensors[i].name) : Cat("param.", i);
    const shampoo_param_desc param = DescribeParam(tensors[i], name);
    status = shampoo_plan_add_param(made, &param, nullptr);
  }
  return status == SHAMPOO_OK ? shampoo_plan_finish(made) : status;
}

shampoo_status BindTensors(shampoo_optimizer* opt, const std::vector<shampoo_tensor>& tensors) {
  std::vector<shampoo_buffers> buffers(tensors.size(), shampoo_buffers(SHAMPOO_BUFFERS_INIT));
  for (size_t i = 0; i < tensors.size(); ++i) {
    buffers[i].param = tensors[i].data;
    buffers[i].grad = tensors[i].grad;
    buffers[i].out = tensors[i].data;
  }
  return shampoo_optimizer_bind(opt, 0, static_cast<int32_t>(tensors.size()), buffers.data());
}

Status ReadOptions(const char* options, Config* config) {
  if (options == nullptr) return {};
  SHAMPOO_RETURN_IF_ERROR(SetFromOptionText(options, config));
  if (*config->Text("output") == "parameters") return {};
  return Invalid("options: key output is ", *config->Text("output"),
                 ": expected parameters, because shampoo_create writes the parameters in place; for updates use "
                 "shampoo_optimizer_create and shampoo_optimizer_bind");
}

}  // namespace
}  // namespace shampoo

shampoo_status shampoo_create_sized(shampoo_optimizer** out, const char* options, const shampoo_tensor* tensors,
                                    int32_t count, size_t tensor_size) {
  using namespace shampoo;
  std::vector<shampoo_tensor> own;
  ConfigOwner config;
  const shampoo_status read = Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(out, "out"));
    SHAMPOO_RETURN_IF_ERROR(ReadTensors(tensors, count, tensor_size, &own));
    config.reset(new shampoo_config);
    return ReadOptions(options, &config->config);
  });
  if (read != SHAMPOO_OK) return read;
  PlanOwner plan;
  shampoo_status status = CreatePlan(config.get(), own, &plan);
  if (status != SHAMPOO_OK) return status;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  if (!own.empty()) desc.device_type = own.front().device_type, desc.device_id = own.front().device_id;
  shampoo_optimizer* made = nullptr;
  status = shampoo_optimizer_create(&made, plan.get(), &desc);
  OptimizerOwner optimizer(made);
  if (status == SHAMPOO_OK) status = BindTensors(made, own);
  if (status == SHAMPOO_OK) *out = optimizer.release();
  return status;
}
