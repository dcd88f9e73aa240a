// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Which libshampoo_cuda.so is taken, which is refused, and what is told of it. A process has one, so that what is
// refused comes first. Arguments: the folder of the fakes.
#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <shampoo/shampoo.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/cuda/host/fake_plugin.h"

namespace shampoo_test {
namespace {

std::string folder;  // NOLINT: of main's arguments

std::string Fake(const char* name) { return folder + "/" + name; }

bool Tells(const std::string& text, std::initializer_list<std::string> words) {
  for (const std::string& word : words) {
    if (text.find(word) != std::string::npos) continue;
    std::printf("\"%s\" is not in \"%s\"\n", word.c_str(), text.c_str());
    return false;
  }
  return true;
}

void CheckRefused(const std::string& path, std::initializer_list<std::string> words) {
  CAPTURE(path);
  CHECK(shampoo_backend_load(path.c_str()) == SHAMPOO_E_UNSUPPORTED);
  CHECK(Tells(shampoo_last_error(), words));
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
  CHECK(Tells(info.unavailable_reason, words));
}

FakeDevice& TheFake() {
  void* const library = dlopen(Fake("libfake_cuda.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  auto* const function = reinterpret_cast<FakeFunction>(dlsym(library, kFakeSymbol));
  REQUIRE((function != nullptr));
  return *function();
}

TEST_CASE("a file that is none, or does not fit, is refused with the reason") {
  CHECK(shampoo_backend_load(nullptr) == SHAMPOO_E_INVALID);
  CHECK(shampoo_backend_load("") == SHAMPOO_E_INVALID);
  CheckRefused("/nowhere/libshampoo_cuda.so", {"/nowhere/libshampoo_cuda.so", "cannot open shared object file"});
  CheckRefused(Fake("libfake_other_interface.so"),
               {"interface number 99", "works with " + std::to_string(shampoo::cuda::kInterface)});
  CheckRefused(Fake("libfake_other_size.so"), {"Block of 8 bytes", std::to_string(sizeof(shampoo::Block))});
  CheckRefused(Fake("libfake_no_symbol.so"), {"no CUDA backend of libshampoo", "shampoo_cuda_plugin"});
}

TEST_CASE("without a plugin the backend tells where it was looked for, and optimizers are refused with that") {
  CheckUnusable({"is not installed", "libshampoo_cuda.so", "shampoo_backend_load"});
  const std::string why = Cuda().unavailable_reason;
  CHECK(why.find("libshampoo_cuda.so") == why.rfind("libshampoo_cuda.so"));  // told once
  CHECK(Cuda().unavailable_reason == Cuda().unavailable_reason);  // the same memory, which lives as long as the library
  CHECK(shampoo_backend_load("cuda") == SHAMPOO_E_UNSUPPORTED);

  shampoo_config* config = nullptr;
  REQUIRE(shampoo_config_create(&config) == SHAMPOO_OK);
  shampoo_plan_desc place = SHAMPOO_PLAN_DESC_INIT;
  place.device_type = SHAMPOO_CUDA;
  shampoo_plan* plan = nullptr;
  REQUIRE(shampoo_plan_create(&plan, config, &place) == SHAMPOO_OK);
  REQUIRE(shampoo_plan_finish(plan) == SHAMPOO_OK);
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.device_type = SHAMPOO_CUDA;
  shampoo_optimizer* optimizer = nullptr;
  CHECK(shampoo_optimizer_create(&optimizer, plan, &desc) == SHAMPOO_E_UNSUPPORTED);
  CHECK(Tells(shampoo_last_error(), {"SHAMPOO_CUDA", "libshampoo_cuda.so"}));
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
}

// A file beside this program, which has the library in it, for as long as this lives.
struct Beside {
  Beside(const char* name, const char* fake)
      : path(std::filesystem::read_symlink("/proc/self/exe").parent_path() / name) {
    std::filesystem::remove(path);
    std::filesystem::create_symlink(Fake(fake), path);
  }
  ~Beside() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

TEST_CASE("beside the library the name with the version comes first, then that without") {
  const Beside plain("libshampoo_cuda.so", "libfake_other_interface.so");
  CheckUnusable({plain.path.c_str(), "interface number 99"});
  const Beside versioned("libshampoo_cuda.so.0", "libfake_no_symbol.so");
  CheckUnusable({versioned.path.c_str(), "no CUDA backend of libshampoo"});
}

TEST_CASE("the first that fits stays, on all threads at once") {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] { CHECK(shampoo_backend_load(Fake("libfake_cuda.so").c_str()) == SHAMPOO_OK); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shampoo_backend_load(Fake("libfake_cuda.so").c_str()) == SHAMPOO_OK);
  CHECK(shampoo_backend_load("cuda") == SHAMPOO_OK);
  CHECK(shampoo_backend_load(Fake("libfake_second.so").c_str()) == SHAMPOO_E_STATE);
  CHECK(Tells(shampoo_last_error(), {"libfake_cuda.so already", "libfake_second.so"}));
  CHECK(shampoo_backend_load("/nowhere/x.so") == SHAMPOO_E_UNSUPPORTED);
}

TEST_CASE("what the machine lacks is told") {
  FakeDevice& fake = TheFake();
  CHECK(Cuda().usable == 1);
  CHECK(Cuda().device_count == 1);
  CHECK(std::string(Cuda().unavailable_reason).empty());
  fake.description = {0, 0, 12080, ""};
  CheckUnusable({"no driver"});
  fake.description = {0, 12020, 12080, "cudaErrorInsufficientDriver"};
  CheckUnusable({"12.2", "12.8", "12.6 or later"});
  fake.description = {0, 12080, 12080, ""};
  CheckUnusable({"no NVIDIA GPU"});
  fake.description = {0, 12080, 12080, "the GPU is of sm_61, and code is there for sm_80 and later"};
  CheckUnusable({"sm_61"});
  fake.description = {3, 13000, 12080, ""};
  CHECK(Cuda().device_count == 3);
}

}  // namespace
}  // namespace shampoo_test

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  shampoo_test::folder = argv[1];
  return doctest::Context(argc - 1, argv + 1).run();
}
