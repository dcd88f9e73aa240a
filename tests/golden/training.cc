// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/golden/network.h"
#include "tests/golden/replay_ranks.h"
#include "tests/golden/suites.h"

namespace shampoo::golden {
namespace {

// Images, one per row, and their labels. All cases of a folder use the images in the file data.safetensors of the
// folder.
struct Images {
  std::vector<double> pixels;  // each row has `width` pixels
  std::vector<uint8_t> labels;
  size_t width = 0;
};

Images ReadTrainingImages(const std::filesystem::path& path, const Network& network) {
  const TensorFile file = ReadSafetensors(path);
  const Tensor& x = file.At("x_train");
  const Tensor& y = file.At("y_train");
  Images images;
  images.width = network.Inputs();
  if (x.shape != std::vector<int64_t>{ElementCount(y.shape), static_cast<int64_t>(images.width)}) {
    throw std::runtime_error(path.string() + ": the shape of x_train does not match y_train and the network's input");
  }
  const auto* bytes = x.As<uint8_t>("U8");
  for (size_t i = 0; i < x.bytes.size(); ++i) images.pixels.push_back(bytes[i] / 16.0);  // values are 0 to 16
  const auto* labels = y.As<uint8_t>("U8");
  images.labels.assign(labels, labels + y.bytes.size());
  for (const uint8_t label : images.labels) {
    if (label >= network.Classes()) throw std::runtime_error(path.string() + ": a label has no class in the network");
  }
  return images;
}

// Returns the row numbers of the images that a step uses. Row `step` of the tensor "batches" lists these numbers. If
// the case has no tensor "batches", a step uses all images. Steps are counted from 0.
std::vector<int32_t> RowsOfStep(const Case& recorded, int64_t step, size_t rows) {
  const Tensor* batches = recorded.data.Find("batches");
  if (batches == nullptr) {
    if (recorded.settings.at("batch") != "full")
      throw std::runtime_error("the case has no tensor \"batches\", and its setting \"batch\" is not \"full\"");
    std::vector<int32_t> all(rows);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  if (batches->shape.size() != 2 || step >= batches->shape[0])
    throw std::runtime_error("the tensor \"batches\" has no row for a step");
  const int32_t* first = batches->As<int32_t>("I32") + step * batches->shape[1];
  std::vector<int32_t> chosen(first, first + batches->shape[1]);
  for (const int32_t row : chosen) {
    if (row < 0 || static_cast<size_t>(row) >= rows)
      throw std::runtime_error("the tensor \"batches\" names a row that the images do not have");
  }
  return chosen;
}

Images SelectRows(const Images& images, const std::vector<int32_t>& rows) {
  Images chosen;
  chosen.width = images.width;
  for (const int32_t row : rows) {
    const auto first = images.pixels.begin() + static_cast<std::ptrdiff_t>(images.width) * row;
    chosen.pixels.insert(chosen.pixels.end(), first, first + static_cast<std::ptrdiff_t>(images.width));
    chosen.labels.push_back(images.labels[static_cast<size_t>(row)]);
  }
  return chosen;
}

}  // namespace

TensorFile ReplayTraining(const Case& recorded, const ReplayOptions& options) {
  const Network network(recorded.settings.at("shapes").get<std::vector<std::vector<int64_t>>>());
  const Images images = ReadTrainingImages(recorded.path.parent_path() / "data.safetensors", network);
  ReplayRanks optimizer(recorded.settings, recorded.data, options);

  std::vector<const double*> params;
  for (const Tensor& param : optimizer.Params()) params.push_back(param.As<double>("F64"));
  std::vector<std::vector<double>> gradients(params.size());
  std::vector<double> losses;
  const auto steps = recorded.settings.at("steps").get<int64_t>();
  for (int64_t t = 1; t <= steps; ++t) {
    try {
      const Images batch = SelectRows(images, RowsOfStep(recorded, t - 1, images.labels.size()));
      losses.push_back(network.LossAndGradients(params, batch.pixels, batch.labels, gradients));
      std::vector<const void*> addresses;
      addresses.reserve(gradients.size());
      for (const std::vector<double>& gradient : gradients) addresses.push_back(gradient.data());
      optimizer.Step(addresses);
    } catch (const std::exception& error) {
      throw std::runtime_error("step " + std::to_string(t) + ": " + error.what());
    }
  }
  Tensor loss{"F64", {steps}, std::vector<std::byte>(losses.size() * sizeof(double))};
  std::memcpy(loss.bytes.data(), losses.data(), loss.bytes.size());
  TensorFile result;
  result.tensors.emplace("loss", std::move(loss));
  return result;
}

}  // namespace shampoo::golden
