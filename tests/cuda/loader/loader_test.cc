// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests which plugin (libshampoo_cuda.so) the library loads, which files it rejects, and what
// shampoo_backend_describe() reports about CUDA. A process can load only one plugin, so the tests of rejected files
// come first. The argument of the program is the folder of the fake plugins.
#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/cuda/loader/fake_plugin.h"

namespace shampoo_test {
namespace {

std::string folder;  // NOLINT: set by main

std::string Fake(const char* name) { return folder + "/" + name; }

bool Mentions(const std::string& text, std::initializer_list<std::string> words) {
  for (const std::string& word : words) {
    if (text.find(word) != std::string::npos) continue;
    std::printf("\"%s\" is not in \"%s\"\n", word.c_str(), text.c_str());
    return false;
  }
  return true;
}

void CheckRejected(const std::string& path, std::initializer_list<std::string> words) {
  CAPTURE(path);
  CHECK(shampoo_backend_load(path.c_str()) == SHAMPOO_E_UNSUPPORTED);
  CHECK(Mentions(shampoo_last_error(), words));
}

shampoo_backend_info Cuda() {
  shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
  REQUIRE(shampoo_backend_describe(1, &info) == SHAMPOO_OK);
  CHECK(std::string(info.name) == "cuda");
  return info;
}

void CheckUnusable(std::initializer_list<std::string> words) {
  const shampoo_backend_info info = Cuda();
  CHECK(info.usable == 0);
  CHECK(info.device_count == 0);
  CHECK(Mentions(info.unavailable_reason, words));
}

shampoo::cuda::Description& TheFake() {
  void* const library = dlopen(Fake("libfake_cuda.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto* const function = reinterpret_cast<FakeFunction>(dlsym(library, kFakeSymbol));
  REQUIRE((function != nullptr));
  return *function();
}

TEST_CASE("a file that is not a plugin for this build of the library is rejected with the reason") {
  CHECK(shampoo_backend_load(nullptr) == SHAMPOO_E_INVALID);
  CHECK(shampoo_backend_load("") == SHAMPOO_E_INVALID);
  CheckRejected("/nowhere/libshampoo_cuda.so", {"/nowhere/libshampoo_cuda.so", "cannot open shared object file"});
  CheckRejected(Fake("libfake_other_interface.so"),
                {"interface number 99", "expected " + std::to_string(shampoo::cuda::kInterface)});
  CheckRejected(Fake("libfake_other_size.so"), {"Block of 8 bytes", std::to_string(sizeof(shampoo::Block))});
  CheckRejected(Fake("libfake_no_symbol.so"), {"is not a CUDA backend of libshampoo", "shampoo_cuda_plugin"});
}

TEST_CASE(
    "without a plugin, unavailable_reason says where the library searched, and no optimizer on CUDA can be created") {
  CheckUnusable({"is not installed", "libshampoo_cuda.so", "shampoo_backend_load"});
  const std::string why = Cuda().unavailable_reason;
  CHECK(why.find("libshampoo_cuda.so") == why.rfind("libshampoo_cuda.so"));  // the file is named only once
  CHECK(Cuda().unavailable_reason == Cuda().unavailable_reason);             // both calls return the same pointer
  CHECK(shampoo_backend_load("cuda") == SHAMPOO_E_UNSUPPORTED);

  shampoo_config* config = nullptr;
  REQUIRE(shampoo_config_create(&config) == SHAMPOO_OK);
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.device_type = SHAMPOO_CUDA;
  shampoo_plan* plan = nullptr;
  REQUIRE(shampoo_plan_create(&plan, config, &plan_desc) == SHAMPOO_OK);
  REQUIRE(shampoo_plan_finish(plan) == SHAMPOO_OK);
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.device_type = SHAMPOO_CUDA;
  shampoo_optimizer* optimizer = nullptr;
  CHECK(shampoo_optimizer_create(&optimizer, plan, &desc) == SHAMPOO_E_UNSUPPORTED);
  CHECK(Mentions(shampoo_last_error(), {"SHAMPOO_CUDA", "libshampoo_cuda.so"}));
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

// A link to a fake plugin, in the folder in which the library searches for a plugin. The destructor removes the link.
struct PluginLink {
  PluginLink(const char* name, const char* fake)
      : path(std::filesystem::read_symlink("/proc/self/exe").parent_path() / name) {
    std::filesystem::remove(path);
    std::filesystem::create_symlink(Fake(fake), path);
  }
  ~PluginLink() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

TEST_CASE("the library tries libshampoo_cuda.so.0 before libshampoo_cuda.so") {
  const PluginLink plain("libshampoo_cuda.so", "libfake_other_interface.so");
  CheckUnusable({plain.path.c_str(), "interface number 99"});
  const PluginLink versioned("libshampoo_cuda.so.0", "libfake_no_symbol.so");
  CheckUnusable({versioned.path.c_str(), "is not a CUDA backend of libshampoo"});
}

TEST_CASE("several threads can load a plugin at once, and no other plugin can replace it") {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] { CHECK(shampoo_backend_load(Fake("libfake_cuda.so").c_str()) == SHAMPOO_OK); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shampoo_backend_load(Fake("libfake_cuda.so").c_str()) == SHAMPOO_OK);
  CHECK(shampoo_backend_load("cuda") == SHAMPOO_OK);
  CHECK(shampoo_backend_load(Fake("libfake_second.so").c_str()) == SHAMPOO_E_STATE);
  CHECK(Mentions(shampoo_last_error(), {"already loaded from", "libfake_cuda.so", "libfake_second.so"}));
  CHECK(shampoo_backend_load("/nowhere/x.so") == SHAMPOO_E_UNSUPPORTED);
}

TEST_CASE("the reason why CUDA cannot be used names what the machine lacks") {
  shampoo::cuda::Description& fake = TheFake();
  CHECK(Cuda().usable == 1);
  CHECK(Cuda().device_count == 1);
  CHECK(std::string(Cuda().unavailable_reason).empty());
  // Each assignment sets the number of GPUs, the versions of the driver and the runtime, and unavailable_reason.
  fake = {0, 0, 12080, ""};
  CheckUnusable({"no NVIDIA driver"});
  fake = {0, 12020, 12080, "cudaErrorInsufficientDriver"};
  CheckUnusable({"12.2", "12.8", "12.6 or later"});
  fake = {0, 12080, 12080, ""};
  CheckUnusable({"no NVIDIA GPU"});
  fake = {0, 12080, 12080, "the GPU has sm_61; this build supports sm_80 and later"};
  CheckUnusable({"sm_61"});
  fake = {3, 13000, 12080, ""};
  CHECK(Cuda().device_count == 3);
}

}  // namespace
}  // namespace shampoo_test

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  shampoo_test::folder = argv[1];
  return doctest::Context(argc - 1, argv + 1).run();
}
