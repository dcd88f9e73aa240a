// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests the parts of the replay tool that do not use the library, so that an error of the file reader or of the
// gradients (network.h) is not mistaken for an error of the optimizer. The build defines SHAMPOO_GOLDEN_DATA, the
// folder of the recorded data.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/golden/network.h"
#include "tests/golden/perturb.h"
#include "tests/golden/safetensors.h"

namespace shampoo::golden {
namespace {

// Makes a file name that only this process uses. The destructor removes the file.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() / ("shampoo_tools_test." + std::to_string(getpid()))) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& Path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void WriteRaw(const std::filesystem::path& path, const std::string& header, const std::string& body) {
  std::ofstream out(path, std::ios::binary);
  const uint64_t size = header.size();
  out.write(reinterpret_cast<const char*>(&size), sizeof(size));
  out << header << body;
}

Tensor MakeTensor(const std::string& dtype, const std::vector<int64_t>& shape, const void* elements) {
  Tensor tensor{dtype, shape, std::vector<std::byte>(static_cast<size_t>(ElementCount(shape)) * ElementSize(dtype))};
  if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), elements, tensor.bytes.size());
  return tensor;
}

TEST_CASE("a safetensors file is read back as it was written") {
  const double numbers[] = {1.0, -0.1, 3e300};
  const uint16_t halves[] = {0x3f80, 0x7fc1, 0x8000, 1, 2, 3};
  TensorFile file;
  file.metadata["case"] = "{\"name\": \"\u00e9\"}";
  file.tensors.emplace("x/1", MakeTensor("F64", {3}, numbers));
  file.tensors.emplace("bf16", MakeTensor("BF16", {2, 1, 3}, halves));
  file.tensors.emplace("scalar", MakeTensor("F64", {}, numbers + 1));
  file.tensors.emplace("empty", MakeTensor("F32", {0, 4}, nullptr));
  const TemporaryFile temporary;
  WriteSafetensors(temporary.Path(), file);
  const TensorFile back = ReadSafetensors(temporary.Path());
  CHECK(back.metadata == file.metadata);
  REQUIRE(back.tensors.size() == file.tensors.size());
  for (const auto& entry : file.tensors) {
    const std::string& name = entry.first;  // the lambda of CAPTURE cannot capture a structured binding in clang
    const Tensor& tensor = entry.second;
    CAPTURE(name);
    CHECK(back.At(name).dtype == tensor.dtype);
    CHECK(back.At(name).shape == tensor.shape);
    CHECK(back.At(name).bytes == tensor.bytes);
  }
  CHECK(back.At("x/1").As<double>("F64")[2] == 3e300);
  CHECK(back.At("empty").bytes.data() != nullptr);
  CHECK_THROWS_WITH(static_cast<void>(back.At("y")), "there is no tensor y");
  CHECK_THROWS(static_cast<void>(back.At("x/1").As<float>("F32")));
}

TEST_CASE("damaged safetensors files are rejected") {
  const TemporaryFile temporary;
  const auto read = [&](const std::string& header, const std::string& body) {
    WriteRaw(temporary.Path(), header, body);
    return ReadSafetensors(temporary.Path());
  };
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK_NOTHROW(read(good, "12345678"));
  CHECK_THROWS(read(good, "1234567"));
  for (const char* bad : {R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
                          R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
                          R"({"x":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})",
                          R"({"x":{"dtype":"F32","shape":[-1,-2],"data_offsets":[0,8]}})",
                          R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                          R"({"x":{"dtype":"F32","shape":[2]}})", R"({"x":)"}) {
    CAPTURE(std::string(bad));
    CHECK_THROWS(read(bad, "12345678"));
  }
  for (const std::string& whole_file : {std::string(8, '\xff') + "{}", std::string("abc")}) {
    CAPTURE(whole_file.size());
    std::ofstream(temporary.Path(), std::ios::binary) << whole_file;
    CHECK_THROWS(ReadSafetensors(temporary.Path()));
  }
}

template <typename Real>
Tensor TensorOf(const std::string& dtype, const std::vector<int64_t>& shape, const std::vector<Real>& elements) {
  return MakeTensor(dtype, shape, elements.data());
}

TEST_CASE("PerturbElements changes elements by up to two units in the last place") {
  std::vector<float> numbers(1000, -1.5F);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> kept = {0, -0.0F, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()};
  numbers.insert(numbers.end(), kept.begin(), kept.end());
  const Tensor before = TensorOf("F32", {1005}, numbers);
  std::mt19937_64 random(1);
  Tensor after = before;
  PerturbElements(&after, &random);
  const auto* const moved = after.As<float>("F32");
  bool is_used[5] = {};
  for (size_t i = 0; i < 1000; ++i) {
    const float units = (moved[i] + 1.5F) / std::numeric_limits<float>::epsilon();
    REQUIRE((units >= -2 && units <= 2 && units == std::floor(units)));
    is_used[static_cast<size_t>(units + 2)] = true;
  }
  for (const bool used : is_used) CHECK(used);
  CHECK(std::memcmp(moved + 1000, kept.data(), kept.size() * sizeof(float)) == 0);

  std::mt19937_64 same(1);
  Tensor again = before;
  PerturbElements(&again, &same);
  CHECK(again.bytes == after.bytes);
  PerturbElements(&again, &same);
  CHECK(again.bytes != after.bytes);
}

TEST_CASE("PerturbMatrix changes a matrix by up to the backward error of an eigensolver") {
  const std::vector<double> numbers = {8, 1, 0, 1, 4, 2, 0, 2, 1};
  Tensor matrix = TensorOf("F64", {3, 3}, numbers);
  std::mt19937_64 random(1);
  PerturbMatrix(&matrix, &random);
  const double bound = 3 * 8 * std::numeric_limits<double>::epsilon();  // n is 3, and the largest element is 8
  double largest = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double change = std::abs(matrix.As<double>("F64")[i] - numbers[i]);
    CHECK(change <= bound + std::numeric_limits<double>::epsilon() * numbers[i]);
    if (numbers[i] == 0) CHECK(change == 0);
    largest = std::max(largest, change);
  }
  CHECK(largest > bound / 4);
}

TEST_CASE("PerturbElements and PerturbMatrix do not change 16-bit elements") {
  for (const char* dtype : {"F16", "BF16"}) {
    const Tensor before = TensorOf<uint16_t>(dtype, {2, 2}, {0x3c00, 0xbc00, 0x3f80, 0x8000});
    Tensor after = before;
    std::mt19937_64 random(1);
    PerturbElements(&after, &random);
    PerturbMatrix(&after, &random);
    CHECK(after.bytes == before.bytes);
  }
}

// A small network with random parameters.
struct Example {
  std::vector<std::vector<int64_t>> shapes = {{5, 4}, {5}, {3, 5}, {3}, {6, 3}, {6}};
  std::vector<std::vector<double>> params;
  std::vector<double> x;
  std::vector<uint8_t> labels = {0, 5, 2, 3, 3, 1, 4};

  Example() {
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    for (const std::vector<int64_t>& shape : shapes) {
      params.emplace_back(static_cast<size_t>(ElementCount(shape)));
      for (double& value : params.back()) value = normal(random);
    }
    x.resize(labels.size() * 4);
    for (double& value : x) value = normal(random);
  }

  double Loss(std::vector<std::vector<double>>& gradients) const {
    std::vector<const double*> addresses;
    for (const std::vector<double>& param : params) addresses.push_back(param.data());
    return Network(shapes).LossAndGradients(addresses, x, labels, gradients);
  }
};

TEST_CASE("the network's gradients agree with finite differences of its loss") {
  Example example;
  std::vector<std::vector<double>> gradients(6);
  std::vector<std::vector<double>> unused(6);
  example.Loss(gradients);
  constexpr double step = 1e-5;  // the error of the central difference is about step^2
  for (size_t p = 0; p < example.params.size(); ++p) {
    REQUIRE(gradients[p].size() == example.params[p].size());
    for (size_t i = 0; i < example.params[p].size(); ++i) {
      CAPTURE(p);
      CAPTURE(i);
      double& value = example.params[p][i];
      const double before = value;
      value = before + step;
      const double above = example.Loss(unused);
      value = before - step;
      const double below = example.Loss(unused);
      value = before;
      CHECK(std::abs((above - below) / (2 * step) - gradients[p][i]) < 1e-8);
    }
  }
}

TEST_CASE("shapes that do not form a network are rejected") {
  CHECK_THROWS(Network({}));
  CHECK_THROWS(Network({{2, 3}}));
  CHECK_THROWS(Network({{2, 3}, {3}}));
  CHECK_THROWS(Network({{2, 3}, {2}, {4, 3}, {4}}));
}

// The first loss is computed before the first step, so it does not depend on an optimizer.
TEST_CASE("the first loss of each of two recorded training runs is reproduced") {
  const std::filesystem::path folder = std::filesystem::path(SHAMPOO_GOLDEN_DATA) / "training";
  const TensorFile data = ReadSafetensors(folder / "data.safetensors");
  const Tensor& images = data.At("x_train");
  const auto* labels = data.At("y_train").As<uint8_t>("U8");
  for (const char* name : {"shampoo_adam_freq5_full.safetensors", "shampoo_adam_freq1_mini.safetensors"}) {
    CAPTURE(std::string(name));
    const TensorFile file = ReadSafetensors(folder / name);
    const auto settings = nlohmann::json::parse(file.metadata.at("case"));
    const Tensor* batches = file.Find("batches");
    const int64_t rows = batches == nullptr ? images.shape[0] : batches->shape[1];
    std::vector<double> x;
    std::vector<uint8_t> y;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = batches == nullptr ? r : batches->As<int32_t>("I32")[r];
      // An image has 64 pixels, with values 0 to 16.
      for (int64_t i = 0; i < 64; ++i) x.push_back(images.As<uint8_t>("U8")[row * 64 + i] / 16.0);
      y.push_back(labels[row]);
    }
    std::vector<const double*> params;
    params.reserve(6);
    for (int p = 0; p < 6; ++p) params.push_back(file.At("init/" + std::to_string(p)).As<double>("F64"));
    std::vector<std::vector<double>> gradients(6);
    const Network network(settings.at("shapes").get<std::vector<std::vector<int64_t>>>());
    const double loss = network.LossAndGradients(params, x, y, gradients);
    CHECK(std::abs(loss - file.At("loss").As<double>("F64")[0]) < settings.at("loss_atol")[0].get<double>());
  }
}

}  // namespace
}  // namespace shampoo::golden
