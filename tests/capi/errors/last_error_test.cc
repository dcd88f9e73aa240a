// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <thread>

#include "small_model.h"

namespace shampoo_test {
namespace {

TEST_CASE("each thread has its own last error, and only failed calls on that thread change it") {
  CHECK_INVALID(shampoo_config_create(nullptr), "out is NULL");
  const std::string here = shampoo_last_error();
  std::string fresh = "not read";
  std::string there;
  std::thread([&] {
    fresh = shampoo_last_error();
    (void)shampoo_plan_finish(nullptr);
    there = shampoo_last_error();
  }).join();
  CHECK(fresh == "");
  CHECK(there.find("plan is NULL") != std::string::npos);
  CHECK(shampoo_last_error() == here);
  SmallModel model;
  model.Bind();
  RequireOk(shampoo_optimizer_step(model.get(), nullptr));
  CHECK(shampoo_last_error() == here);
}

TEST_CASE("an optimizer keeps the message of its last failure, whichever thread made the call") {
  SmallModel model;
  SmallModel other;
  CHECK(std::string(shampoo_optimizer_error(model.get())) == "");
  CHECK(std::string(shampoo_optimizer_error(nullptr)) == "");
  std::thread([&] { (void)shampoo_optimizer_step(model.get(), nullptr); }).join();
  const std::string text = shampoo_optimizer_error(model.get());
  CHECK(text.find("\"weight\"") != std::string::npos);
  CHECK(std::string(shampoo_optimizer_error(other.get())) == "");
  // Calls that succeed, and failed calls of functions that take a const optimizer, leave the message unchanged.
  model.Bind();
  RequireOk(shampoo_optimizer_step(model.get(), nullptr));
  double value = 0;
  CHECK_INVALID(shampoo_optimizer_stat(model.get(), "no such", &value), "\"no such\"");
  CHECK_INVALID(shampoo_optimizer_get(model.get(), 0, "no such", &value), "\"no such\"");
  CHECK(shampoo_optimizer_error(model.get()) == text);
}

TEST_CASE("a message that is too long is truncated between two characters and ends in a mark") {
  constexpr size_t kKept = 4095;  // the largest size of a message, in bytes
  constexpr char kMark[] = " ... (cut off)";
  shampoo_config* config = nullptr;
  RequireOk(shampoo_config_create(&config));
  // The characters have 1 to 4 bytes. Each shift lets the size limit fall on a different byte of a character.
  for (const std::string character : {"a", "ä", "权", "\U0001F680"}) {
    for (size_t shift = 0; shift < character.size(); ++shift) {
      std::string key(shift, 'x');
      while (key.size() < 2 * kKept) key += character;
      CHECK(shampoo_config_set_str(config, key.c_str(), "1") == SHAMPOO_E_INVALID);
      const std::string text = shampoo_last_error();
      CHECK(text.size() <= kKept);
      CHECK(text.size() > kKept - character.size());
      REQUIRE(text.ends_with(kMark));
      const std::string kept = text.substr(0, text.size() - std::strlen(kMark));
      const size_t at = kept.find(key.substr(0, 100));
      REQUIRE(at != std::string::npos);
      CHECK(key.starts_with(kept.substr(at)));
      CHECK((kept.size() - at - shift) % character.size() == 0);
    }
  }
  // The next message is complete again.
  CHECK_INVALID(shampoo_config_create(nullptr), "out is NULL");
  CHECK(std::string(shampoo_last_error()).size() < 100);
  shampoo_config_destroy(config);
}

TEST_CASE("each status code has a name and any other number is an unknown status") {
  CHECK(std::string(shampoo_status_name(SHAMPOO_OK)) == "SHAMPOO_OK");
  CHECK(std::string(shampoo_status_name(SHAMPOO_E_INVALID)) == "SHAMPOO_E_INVALID");
  CHECK(std::string(shampoo_status_name(SHAMPOO_E_INTERNAL)) == "SHAMPOO_E_INTERNAL");
  for (const int32_t status : {-1, 10, INT32_MAX, INT32_MIN}) {
    CHECK(std::string(shampoo_status_name(status)) == "unknown status");
  }
}

TEST_CASE("log levels and backends that do not exist are rejected") {
  for (const int32_t level : {-1, 4}) {
    CHECK(shampoo_set_log(nullptr, nullptr, level) == SHAMPOO_E_INVALID);
    CHECK(MissingWord({"max_level is " + Text(level), "0", "3"}) == "");
  }
  shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
  for (const int32_t index : {-1, shampoo_backend_count()}) {
    CHECK_INVALID(shampoo_backend_describe(index, &info), "index is " + Text(index), "0 to 1");
  }
  CHECK(info.name == nullptr);
  CHECK_INVALID(shampoo_backend_describe(0, nullptr), "info is NULL");
}

}  // namespace
}  // namespace shampoo_test
