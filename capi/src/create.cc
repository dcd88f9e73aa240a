// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The simple API: shampoo_create_sized() creates an optimizer from tensors and a string of options. It calls functions
// of the full API.
#include <memory>
#include <string>
#include <vector>

#include "capi/src/guard.h"
#include "capi/src/handles.h"
#include "capi/src/struct_size.h"
#include "core/config/option_text.h"

namespace shampoo {
namespace {

// Makes a Status from the result of the last API call of this thread, with the message of shampoo_last_error().
Status ResultOf(shampoo_status status) {
  return status == SHAMPOO_OK ? Status() : Status(static_cast<Code>(status), shampoo_last_error());
}

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
      return Invalid(TensorText(i), " has device_type ", one.device_type, " and device_id ", one.device_id,
                     ", but tensors[0] has device_type ", first.device_type, " and device_id ", first.device_id,
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
  param.role = tensor.role;
  param.stack_dims = tensor.stack_dims;
  return param;
}

Status AddParams(const std::vector<shampoo_tensor>& tensors, shampoo_plan* plan) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = tensors[i].name != nullptr ? std::string(tensors[i].name) : Cat("param.", i);
    const shampoo_param_desc param = DescribeParam(tensors[i], name);
    SHAMPOO_RETURN_IF_ERROR(ResultOf(shampoo_plan_add_param(plan, &param, nullptr)));
  }
  return ResultOf(shampoo_plan_finish(plan));
}

Status BindTensors(const std::vector<shampoo_tensor>& tensors, shampoo_optimizer* opt) {
  std::vector<shampoo_buffers> buffers(tensors.size(), shampoo_buffers(SHAMPOO_BUFFERS_INIT));
  for (size_t i = 0; i < tensors.size(); ++i) {
    buffers[i].param = tensors[i].data;
    buffers[i].grad = tensors[i].grad;
    buffers[i].out = tensors[i].data;
  }
  return ResultOf(shampoo_optimizer_bind(opt, 0, static_cast<int32_t>(tensors.size()), buffers.data()));
}

Status ReadOptions(const char* options, Config* config) {
  if (options == nullptr) return {};
  SHAMPOO_RETURN_IF_ERROR(SetFromOptionText(options, config));
  if (*config->Text("output") == "parameters") return {};
  return Invalid(
      "options: key output is ", *config->Text("output"),
      ": expected output=parameters, because an optimizer of shampoo_create updates the parameters in place; to get "
      "updates, use shampoo_optimizer_create and shampoo_optimizer_bind");
}

Status CreateOptimizer(const char* options, const std::vector<shampoo_tensor>& tensors, shampoo_optimizer** out) {
  shampoo_config config;
  SHAMPOO_RETURN_IF_ERROR(ReadOptions(options, &config.config));
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  if (!tensors.empty()) {
    plan_desc.device_type = optimizer_desc.device_type = tensors.front().device_type;
    optimizer_desc.device_id = tensors.front().device_id;
  }
  shampoo_plan* made_plan = nullptr;
  SHAMPOO_RETURN_IF_ERROR(ResultOf(shampoo_plan_create(&made_plan, &config, &plan_desc)));
  const std::unique_ptr<shampoo_plan> plan(made_plan);
  SHAMPOO_RETURN_IF_ERROR(AddParams(tensors, plan.get()));
  shampoo_optimizer* made = nullptr;
  SHAMPOO_RETURN_IF_ERROR(ResultOf(shampoo_optimizer_create(&made, plan.get(), &optimizer_desc)));
  std::unique_ptr<shampoo_optimizer, decltype(&shampoo_optimizer_destroy)> optimizer(made, shampoo_optimizer_destroy);
  SHAMPOO_RETURN_IF_ERROR(BindTensors(tensors, made));
  *out = optimizer.release();
  return {};
}

}  // namespace
}  // namespace shampoo

shampoo_status shampoo_create_sized(shampoo_optimizer** out, const char* options, const shampoo_tensor* tensors,
                                    int32_t count, size_t tensor_size) {
  using namespace shampoo;
  return Guard([&]() -> Status {
    SHAMPOO_RETURN_IF_ERROR(RequireArgument(out, "out"));
    std::vector<shampoo_tensor> own;
    SHAMPOO_RETURN_IF_ERROR(ReadTensors(tensors, count, tensor_size, &own));
    return CreateOptimizer(options, own, out);
  });
}
