// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "optimizers.h"

#include <map>
#include <sstream>

namespace shampoo_xla {
namespace {

[[noreturn]] void Unreadable(const std::string& line) {
  throw Failure{SHAMPOO_E_INTERNAL, "a line of the plan cannot be read: \"" + line + "\""};
}

// Adds a parameter to the plan. The line contains stack_dims, role, fan, row_splits, the dtypes of parameter, gradient
// and update, the number of dims, the dims, and the name. The name is the rest of the line.
void AddParam(shampoo_plan* plan, std::istringstream* line) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  std::string name;
  *line >> desc.stack_dims >> desc.role >> desc.fan;
  for (int64_t& size : desc.row_splits) *line >> size;
  *line >> desc.param_dtype >> desc.grad_dtype >> desc.out_dtype >> desc.ndim;
  for (int k = 0; k < desc.ndim && k < 8; ++k) *line >> desc.shape[k];
  line->get();  // the space before the name
  if (!std::getline(*line, name)) Unreadable(line->str());
  desc.name = name.c_str();
  Check(shampoo_plan_add_param(plan, &desc, nullptr));
}

void SetKey(shampoo_config* config, std::istringstream* line) {
  std::string key, value;
  if (!(*line >> key) || !std::getline(*line, value)) Unreadable(line->str());
  Check(shampoo_config_set_str(config, key.c_str(), value.c_str()));
}

// Reads the lines "threads N", "key NAME VALUE" and "param ...", which libshampoo/xla_call.py writes.
Plan Read(std::string_view text, const DeviceDesc& device) {
  shampoo_config* config_handle = nullptr;
  Check(shampoo_config_create(&config_handle));
  const Config config(config_handle);
  // With status_lag=0, each call of the step handler reports the errors of its own step, not those of an earlier step.
  Check(shampoo_config_set_i64(config.get(), "status_lag", 0));
  shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  desc.device_type = device.device_type;
  Plan plan;
  std::istringstream lines{std::string(text)};
  for (std::string whole; std::getline(lines, whole);) {
    std::istringstream line(whole);
    std::string kind;
    line >> kind;
    if (kind == "param" && plan == nullptr) {
      shampoo_plan* handle = nullptr;
      Check(shampoo_plan_create(&handle, config.get(), &desc));
      plan.reset(handle);
    }
    if (kind == "param") {
      AddParam(plan.get(), &line);
    } else if (kind == "key") {
      SetKey(config.get(), &line);
    } else if (kind != "threads" || !(line >> desc.threads)) {
      Unreadable(whole);
    }
  }
  if (plan == nullptr) throw Failure{SHAMPOO_E_INTERNAL, "the plan has no parameter"};
  Check(shampoo_plan_finish(plan.get()));
  return plan;
}

struct Entry {
  int64_t references = 0;
  std::map<std::pair<int32_t, int32_t>, std::shared_ptr<Slot>> slots;  // key: type and number of the device
};

struct Table {
  std::mutex mutex;
  std::map<std::string, Entry, std::less<>> entries;

  Entry& At(std::string_view text) {
    const auto found = entries.find(text);
    return found != entries.end() ? found->second : entries[std::string(text)];
  }
};

// Never destroyed: steps may still run on other threads when the process ends.
Table& GetTable() {
  static Table* const table = new Table;
  return *table;
}

}  // namespace

void Check(shampoo_status status) {
  if (status != SHAMPOO_OK) throw Failure{status, shampoo_last_error()};
}

Optimizer Make(std::string_view text, const DeviceDesc& device, void* arena, size_t bytes) {
  const Plan plan = Read(text, device);
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.device_type = device.device_type;
  desc.device_id = device.device_id;
  desc.stream = device.stream;
  desc.state = arena;
  desc.state_bytes = bytes;
  shampoo_optimizer* handle = nullptr;
  Check(shampoo_optimizer_create(&handle, plan.get(), &desc));
  return Optimizer(handle);
}

std::shared_ptr<Slot> Find(std::string_view text, const DeviceDesc& device) {
  Table& table = GetTable();
  const std::lock_guard lock(table.mutex);
  std::shared_ptr<Slot>& slot = table.At(text).slots[{device.device_type, device.device_id}];
  if (slot == nullptr) slot = std::make_shared<Slot>();
  return slot;
}

void Retain(std::string_view text) {
  Table& table = GetTable();
  const std::lock_guard lock(table.mutex);
  ++table.At(text).references;
}

void Release(std::string_view text) {
  Table& table = GetTable();
  Entry last;  // destroyed after the lock is released
  const std::lock_guard lock(table.mutex);
  const auto found = table.entries.find(text);
  if (found == table.entries.end() || --found->second.references > 0) return;
  last = std::move(found->second);
  table.entries.erase(found);
}

}  // namespace shampoo_xla
