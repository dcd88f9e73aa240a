// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>

#include "tests/cuda/host/device_host.h"

namespace shampoo_test {
namespace {

TEST_CASE("entries are read and written on the host and on the device, in the caller's stream") {
  DeviceHost host(Keys{{"momentum", "0.5"}});
  int stream = 0;
  const std::vector<float> values = {1, 2, 3, 4, 5};
  const int64_t momentum = host.IndexOf("w/0/momentum");
  Must(shampoo_state_write(host.optimizer, momentum, 2, 5, values.data(), 20, SHAMPOO_CPU, &stream));
  CHECK(TheFake().stream == &stream);
  CHECK(host.Read("w/0/momentum", 12) == std::vector<float>{0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0});
  // The device memory of the fake plugin is host memory.
  std::vector<float> there(3);
  Must(shampoo_state_read(host.optimizer, momentum, 5, 3, there.data(), 12, SHAMPOO_CUDA, nullptr));
  CHECK(there == std::vector<float>{4, 5, 0});
  Must(shampoo_state_write(host.optimizer, momentum, 0, 3, there.data(), 12, SHAMPOO_CUDA, nullptr));
  CHECK(host.Read("w/0/momentum", 3) == there);
  CHECK(shampoo_state_read(host.optimizer, momentum, 5, int64_t{1} << 60, there.data(), 12, SHAMPOO_CUDA, nullptr) ==
        SHAMPOO_E_INVALID);
  CHECK(shampoo_state_read(host.optimizer, momentum, 0, 1, there.data(), 12, 3, nullptr) == SHAMPOO_E_UNSUPPORTED);
  // A symmetric entry: the lower triangle is used.
  const std::vector<float> factor = {1, 9, 9, 2, 3, 9, 4, 5, 6};
  const int64_t index = host.IndexOf("w/0/factor.1");
  Must(shampoo_state_write(host.optimizer, index, 0, 9, factor.data(), 36, SHAMPOO_CPU, nullptr));
  CHECK(host.Read("w/0/factor.1", 9) == std::vector<float>{1, 2, 4, 2, 3, 5, 4, 5, 6});
  CHECK(host.Read("w/0/inverse.1", 4) == std::vector<float>{1, 0, 0, 0});
}

TEST_CASE("a checkpoint of one device is loaded on another") {
  char folder[] = "/tmp/shampoo_device_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const Keys keys = {{"momentum", "0.5"}, {"precondition_frequency", "4"}};
  {
    DeviceHost host(keys);
    const std::vector<float> values = {1, 2, 3, 4, 5};
    Must(shampoo_state_write(host.optimizer, host.IndexOf("w/0/momentum"), 0, 5, values.data(), 20, SHAMPOO_CPU,
                             nullptr));
    for (int i = 0; i < 5; ++i) Must(host.Step());
    Must(shampoo_save(&host.optimizer, 1, nullptr, folder, nullptr));
  }
  DeviceHost host(keys);
  int stream = 0;
  Must(host.Step());
  TheFake().finds.rejection = shampoo::cuda::Rejection::kGradientNotFinite;
  Must(host.Step());
  Must(shampoo_load(&host.optimizer, 1, nullptr, folder, &stream));
  CHECK(TheFake().stream == &stream);
  CHECK(host.Read("w/0/momentum", 6) == std::vector<float>{1, 2, 3, 4, 5, 0});
  CHECK(host.Read("w/0/factor.0", 1) == std::vector<float>{16});
  CHECK(host.Steps() == 5);
  Must(host.Step());  // the earlier rejection has no effect
  CHECK(TheFake().expected_step[0] == 6);
  std::filesystem::remove_all(folder);
}

TEST_CASE("an engine is destroyed with its optimizer") {
  {
    DeviceHost host(Keys{});
    CHECK(TheFake().engines == 1);
  }
  CHECK(TheFake().engines == 0);
}

TEST_CASE("creating a plan reports the keys that are not supported on a GPU yet") {
  const std::pair<const char*, const char*> keys[] = {
      {"track_root_residuals", "true"}, {"track_times", "true"}, {"verify_replicas", "5"}, {"shard_mode", "gather"}};
  for (const auto& [key, value] : keys) {
    shampoo_config* config = nullptr;
    Must(shampoo_config_create(&config));
    Must(shampoo_config_set_str(config, "preset", "shampoo_2024"));
    Must(shampoo_config_set_str(config, key, value));
    shampoo_plan_desc place = SHAMPOO_PLAN_DESC_INIT;
    place.device_type = SHAMPOO_CUDA;
    place.shard_world = 2;
    shampoo_plan* plan = nullptr;
    CHECK(shampoo_plan_create(&plan, config, &place) == SHAMPOO_E_UNSUPPORTED);
    CHECK(MissingWord(shampoo_last_error(), {std::string("key ") + key, value, "SHAMPOO_CUDA"}) == "");
    shampoo_config_destroy(config);
  }
}

}  // namespace
}  // namespace shampoo_test
