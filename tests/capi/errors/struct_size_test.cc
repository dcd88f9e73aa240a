// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <functional>

#include "small_model.h"

namespace shampoo_test {
namespace {

constexpr size_t kMore = 24;  // bytes of additional fields in the structs of newer callers

// A struct as a newer caller passes it: the fields of Struct are followed by additional fields, which are 0.
template <typename Struct>
struct Newer {
  explicit Newer(const Struct& fields) {
    std::memcpy(bytes, &fields, sizeof fields);
    SetSize(sizeof(Struct) + kMore);
  }
  void SetSize(size_t size) { std::memcpy(bytes, &size, sizeof size); }
  Struct* get() { return reinterpret_cast<Struct*>(bytes); }
  alignas(16) char bytes[sizeof(Struct) + kMore] = {};
};

// Checks how the library function that `call` calls reads structs of several sizes. The fields are valid, so errors
// concern only struct_size and the bytes after the fields that the library knows. `first` is the smallest struct_size
// that the library accepts.
template <typename Struct>
void CheckRead(const Struct& fields, const std::string& name, const std::function<shampoo_status(const Struct*)>& call,
               size_t first = sizeof(Struct)) {
  CAPTURE(name);
  Newer<Struct> extended(fields);
  for (const size_t size : {size_t{0}, size_t{8}, first - 1}) {
    extended.SetSize(size);
    CHECK_INVALID(call(extended.get()), name + ".struct_size is " + Text(size), "at least " + Text(first), "_INIT");
  }
  extended.SetSize(sizeof(Struct) + kMore);
  for (const size_t at : {sizeof(Struct), sizeof(Struct) + 9, sizeof(Struct) + kMore - 1}) {
    extended.bytes[at] = 1;
    CHECK_ERROR(call(extended.get()), SHAMPOO_E_UNSUPPORTED,
                {name + " has a field", "byte " + Text(at) + " of " + Text(sizeof(Struct) + kMore), "newer library"});
    extended.bytes[at] = 0;
  }
  CHECK_MESSAGE(call(extended.get()) == SHAMPOO_OK, shampoo_last_error());
  extended.SetSize(sizeof(Struct));
  extended.bytes[sizeof(Struct)] = 1;  // this byte is after the end of the caller's struct
  CHECK_MESSAGE(call(extended.get()) == SHAMPOO_OK, shampoo_last_error());
}

// Checks how the library function that `call` calls fills structs of several sizes. A struct that is too small must
// stay unchanged. In a larger struct, the bytes after those that the library knows must stay unchanged.
template <typename Struct>
void CheckWritten(const Struct& init, const std::string& name, const std::function<shampoo_status(Struct*)>& call,
                  size_t first = sizeof(Struct)) {
  CAPTURE(name);
  Newer<Struct> extended(init);
  for (const size_t size : {size_t{0}, size_t{8}, first - 1}) {
    std::memset(extended.bytes, 0x5a, sizeof extended.bytes);
    extended.SetSize(size);
    const Newer<Struct> before = extended;
    CHECK_INVALID(call(extended.get()), name + ".struct_size is " + Text(size), "at least " + Text(first), "_INIT");
    CHECK(std::memcmp(extended.bytes, before.bytes, sizeof extended.bytes) == 0);
  }
  Struct exact = init;
  RequireOk(call(&exact));
  CHECK(exact.struct_size == sizeof(Struct));
  std::memset(extended.bytes, 0x5a, sizeof extended.bytes);
  extended.SetSize(sizeof extended.bytes);
  RequireOk(call(extended.get()));
  CHECK(extended.get()->struct_size == sizeof extended.bytes);
  CHECK(std::memcmp(extended.bytes + sizeof(size_t), reinterpret_cast<const char*>(&exact) + sizeof(size_t),
                    sizeof(Struct) - sizeof(size_t)) == 0);
  for (size_t i = sizeof(Struct); i < sizeof extended.bytes; ++i) CHECK(extended.bytes[i] == 0x5a);
}

TEST_CASE("structs of plans and parameters are read up to struct_size") {
  const ConfigPtr config = MakeConfig();
  CheckRead<shampoo_plan_desc>(SHAMPOO_PLAN_DESC_INIT, "desc", [&](const shampoo_plan_desc* desc) {
    shampoo_plan* plan = nullptr;
    const shampoo_status status = shampoo_plan_create(&plan, config.get(), desc);
    CHECK((status == SHAMPOO_OK) == (plan != nullptr));
    shampoo_plan_destroy(plan);
    return status;
  });
  CheckRead<shampoo_param_desc>(Param("p", {2}), "desc", [&](const shampoo_param_desc* desc) {
    const PlanPtr plan = MakePlan();
    int32_t index = -5;
    const shampoo_status status = shampoo_plan_add_param(plan.get(), desc, &index);
    CHECK((status == SHAMPOO_OK) == (index == 0));
    return status;
  });
}

TEST_CASE("structs of optimizers are read up to struct_size") {
  const PlanPtr plan = MakeSmallPlan();
  CheckRead<shampoo_optimizer_desc>(SHAMPOO_OPTIMIZER_DESC_INIT, "desc",
                                    [&](const shampoo_optimizer_desc* desc) { return TryCreate(plan, *desc); });

  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_allocator allocator = SHAMPOO_ALLOCATOR_INIT;
  allocator.allocate = [](void*, size_t bytes, size_t align, int32_t, int32_t, void*) {
    return std::aligned_alloc(align, (bytes + align - 1) / align * align);
  };
  allocator.deallocate = [](void*, void* memory, size_t, int32_t, int32_t, void*) { std::free(memory); };
  CheckRead<shampoo_allocator>(allocator, "allocator", [&](const shampoo_allocator* extended) {
    desc.allocator = extended;
    return TryCreate(plan, desc);
  });
  desc.allocator = nullptr;
  shampoo_executor executor = SHAMPOO_EXECUTOR_INIT;
  executor.threads = 2;
  executor.parallel_for = [](void*, void (*task)(void*, int64_t), void* argument, int64_t count) {
    for (int64_t i = 0; i < count; ++i) task(argument, i);
  };
  CheckRead<shampoo_executor>(executor, "executor", [&](const shampoo_executor* extended) {
    desc.executor = extended;
    return TryCreate(plan, desc);
  });
}

TEST_CASE("callbacks of a communicator are read up to struct_size") {
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  ops.all_gather = [](void*, const void*, void*, size_t, void*) { return int32_t{0}; };
  CheckRead<shampoo_comm_ops>(ops, "ops", [](const shampoo_comm_ops* extended) {
    shampoo_comm* comm = nullptr;
    const shampoo_status status = shampoo_comm_from_ops(&comm, extended);
    CHECK((status == SHAMPOO_OK) == (comm != nullptr));
    shampoo_comm_destroy(comm);
    return status;
  });
}

TEST_CASE("the struct_size of buffers is the stride of the array") {
  SmallModel model;
  CheckRead<shampoo_buffers>(model.Buffers(0), "buffers", [&](const shampoo_buffers* buffers) {
    return shampoo_optimizer_bind(model.get(), 0, 1, buffers);
  });
  Newer<shampoo_buffers> two[2] = {Newer<shampoo_buffers>(model.Buffers(0)), Newer<shampoo_buffers>(model.Buffers(1))};
  const size_t distance = sizeof two[0];
  static_assert(sizeof two == 2 * sizeof two[0].bytes, "struct_size must be the stride of the elements");
  two[1].SetSize(distance - 8);
  CHECK_INVALID(shampoo_optimizer_bind(model.get(), 0, 2, two[0].get()),
                "buffers[1].struct_size is " + Text(distance - 8), Text(distance), "same");
  two[1].SetSize(distance);
  two[1].bytes[distance - 1] = 1;
  CHECK_ERROR(shampoo_optimizer_bind(model.get(), 0, 2, two[0].get()), SHAMPOO_E_UNSUPPORTED, {"buffers"});
  // The failed call has bound no parameter.
  CHECK_ERROR(shampoo_optimizer_step(model.get(), nullptr), SHAMPOO_E_STATE, {"\"bias\""});
  two[1].bytes[distance - 1] = 0;
  CHECK(shampoo_optimizer_bind(model.get(), 0, 2, two[0].get()) == SHAMPOO_OK);
  CHECK(shampoo_optimizer_step(model.get(), nullptr) == SHAMPOO_OK);
}

TEST_CASE("the library fills structs up to struct_size") {
  const SmallModel model;
  CheckWritten<shampoo_key_info>(SHAMPOO_KEY_INFO_INIT, "info",
                                 [](shampoo_key_info* info) { return shampoo_config_describe_key(0, info); });
  CheckWritten<shampoo_backend_info>(SHAMPOO_BACKEND_INFO_INIT, "info",
                                     [](shampoo_backend_info* info) { return shampoo_backend_describe(0, info); });
  CheckWritten<shampoo_block_info>(SHAMPOO_BLOCK_INFO_INIT, "info",
                                   [&](shampoo_block_info* info) { return shampoo_plan_block(model.plan, 0, info); });
  CheckWritten<shampoo_state_entry>(SHAMPOO_STATE_ENTRY_INIT, "entry", [&](shampoo_state_entry* entry) {
    return shampoo_state_describe(model.get(), 0, entry);
  });
  const ConfigPtr config = MakeConfig();
  CheckWritten<shampoo_root_info>(SHAMPOO_ROOT_INFO_INIT, "info", [&](shampoo_root_info* info) {
    const float a = 16;
    float x = 7;
    const shampoo_status status = shampoo_matrix_inverse_root(config.get(), 1, SHAMPOO_F32, &a, &x, 4, 1, info);
    CHECK(x == (status == SHAMPOO_OK ? 0.5f : 7.0f));
    return status;
  });
}

}  // namespace
}  // namespace shampoo_test
