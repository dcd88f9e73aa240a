// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "small_model.h"

namespace shampoo_test {
namespace {

TEST_CASE("shampoo_state_describe rejects indices of entries that do not exist") {
  const SmallModel model;
  int64_t count = -5;
  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  CHECK_INVALID(shampoo_state_count(nullptr, &count), "opt is NULL");
  CHECK_INVALID(shampoo_state_count(model.get(), nullptr), "count_out is NULL");
  CHECK(count == -5);
  RequireOk(shampoo_state_count(model.get(), &count));
  CHECK_INVALID(shampoo_state_describe(nullptr, 0, &entry), "opt is NULL");
  CHECK_INVALID(shampoo_state_describe(model.get(), 0, nullptr), "entry is NULL");
  for (const int64_t index : {int64_t{-1}, count, INT64_MAX, INT64_MIN}) {
    CHECK_INVALID(shampoo_state_describe(model.get(), index, &entry), "index is " + Text(index),
                  "0 to " + Text(count - 1));
  }
  CHECK(entry.key == nullptr);
}

TEST_CASE("shampoo_state_read and shampoo_state_write reject device memory and ranges outside an entry") {
  BoundModel model;
  RequireOk(model.TryStep());
  int64_t count = 0;
  RequireOk(shampoo_state_count(model.get(), &count));
  const int64_t index = 1;  // the first factor matrix, 4 x 4 float32
  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  RequireOk(shampoo_state_describe(model.get(), index, &entry));
  REQUIRE(std::string(entry.key) == "weight/0/factor.0");
  const auto before = model.Everything();
  std::vector<char> memory(256, char{17});
  const std::vector<char> memory_before = memory;
  int stream = 0;
  struct Transfer {
    int64_t index, first, count;
    size_t bytes;
    int32_t device_type = SHAMPOO_CPU;
    void* stream = nullptr;
  };
  // Checks that shampoo_state_read and shampoo_state_write reject these arguments.
  const auto fails = [&](const Transfer& t, shampoo_status code, std::initializer_list<std::string> words) {
    char* const data = memory.data();
    CHECK_ERROR(shampoo_state_read(model.get(), t.index, t.first, t.count, data, t.bytes, t.device_type, t.stream),
                code, words);
    CHECK(std::string(shampoo_optimizer_error(model.get())) == shampoo_last_error());
    CHECK_ERROR(shampoo_state_write(model.get(), t.index, t.first, t.count, data, t.bytes, t.device_type, t.stream),
                code, words);
    CHECK(std::string(shampoo_optimizer_error(model.get())) == shampoo_last_error());
  };
  const std::string key = entry.key;
  fails({-1, 0, 1, 64}, SHAMPOO_E_INVALID, {"index is -1", "0 to " + Text(count - 1)});
  fails({count, 0, 1, 64}, SHAMPOO_E_INVALID, {"index is " + Text(count)});
  fails({index, 0, 17, 256}, SHAMPOO_E_INVALID, {key, "first is 0", "count is 17", "16"});
  fails({index, 1, INT64_MAX, 256}, SHAMPOO_E_INVALID, {key, "count is " + Text(INT64_MAX)});
  fails({index, 0, 16, 63}, SHAMPOO_E_INVALID, {key, "_bytes is 63", "count is 16", "f32", "64"});
  fails({index, 0, 1, 0}, SHAMPOO_E_INVALID, {key, "_bytes is 0", "4"});
  fails({index, 0, 16, 64, 2}, SHAMPOO_E_UNSUPPORTED, {"device_type is", "2", "SHAMPOO_CPU (1)"});
  fails({index, 0, 16, 64, 0}, SHAMPOO_E_UNSUPPORTED, {"device_type is", "0", "SHAMPOO_CPU (1)"});
  fails({index, 0, 16, 64, SHAMPOO_CPU, &stream}, SHAMPOO_E_INVALID, {"stream is not NULL"});
  CHECK_INVALID(shampoo_state_read(nullptr, 0, 0, 1, memory.data(), 64, SHAMPOO_CPU, nullptr), "opt is NULL");
  CHECK_INVALID(shampoo_state_write(nullptr, 0, 0, 1, memory.data(), 64, SHAMPOO_CPU, nullptr), "opt is NULL");
  CHECK_INVALID(shampoo_state_read(model.get(), 0, 0, 1, nullptr, 64, SHAMPOO_CPU, nullptr), "dst is NULL");
  CHECK_INVALID(shampoo_state_write(model.get(), 0, 0, 1, nullptr, 64, SHAMPOO_CPU, nullptr), "src is NULL");
  CHECK(memory == memory_before);
  CHECK(model.Everything() == before);
}

}  // namespace
}  // namespace shampoo_test
