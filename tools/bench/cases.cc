// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/cases.h"

#include <functional>
#include <numeric>

#include "tools/bench/fail.h"

namespace bench {
namespace {

using Tensors = std::vector<Tensor>;

void Add(Tensors* tensors, const std::string& name, const Dims& shape) { tensors->push_back({name, shape}); }

Tensors Transformer() {
  Tensors tensors;
  for (int i = 0; i < 8; ++i) Add(&tensors, "attention." + std::to_string(i), {512, 512});
  for (int i = 0; i < 4; ++i) Add(&tensors, "mlp." + std::to_string(i), {2048, 512});
  return tensors;
}

// The model has four stages of residual units. No convolution has a bias. A normalization with a weight and a bias
// follows each convolution.
Tensors ResNet50() {
  Tensors tensors;
  const auto add_convolution = [&tensors](const std::string& name, int64_t out, int64_t in, int64_t side) {
    Add(&tensors, name + ".weight", {out, in, side, side});
    Add(&tensors, name + ".norm.weight", {out});
    Add(&tensors, name + ".norm.bias", {out});
  };
  add_convolution("stem", 64, 3, 7);
  const int depths[] = {3, 4, 6, 3};
  int64_t in = 64;
  int64_t width = 64;
  for (int stage = 0; stage < 4; ++stage, width *= 2) {
    for (int i = 0; i < depths[stage]; ++i) {
      const std::string name = "stage" + std::to_string(stage + 1) + "." + std::to_string(i);
      add_convolution(name + ".reduce", width, in, 1);
      add_convolution(name + ".middle", width, width, 3);
      add_convolution(name + ".expand", 4 * width, width, 1);
      if (i == 0) add_convolution(name + ".shortcut", 4 * width, in, 1);
      in = 4 * width;
    }
  }
  Add(&tensors, "classifier.weight", {1000, 2048});
  Add(&tensors, "classifier.bias", {1000});
  return tensors;
}

// The model has 124 million elements. The output layer uses the weight of the token embedding, so it adds no tensor.
Tensors Gpt2() {
  const int64_t width = 768;
  Tensors tensors = {{"tokens", {50257, width}}, {"positions", {1024, width}}};
  const auto add_norm = [&](const std::string& name) {
    Add(&tensors, name + ".weight", {width});
    Add(&tensors, name + ".bias", {width});
  };
  const auto add_linear = [&](const std::string& name, int64_t in, int64_t out) {
    Add(&tensors, name + ".weight", {in, out});
    Add(&tensors, name + ".bias", {out});
  };
  for (int layer = 0; layer < 12; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    add_norm(name + ".norm1");
    add_linear(name + ".qkv", width, 3 * width);
    add_linear(name + ".projection", width, width);
    add_norm(name + ".norm2");
    add_linear(name + ".up", width, 4 * width);
    add_linear(name + ".down", 4 * width, width);
  }
  add_norm("norm");
  return tensors;
}

// The two MLPs of a deep learning recommendation model (DLRM) with 26 embedding tables of width 128. The second MLP has
// 479 inputs: the 128 outputs of the first MLP, and 27 * 26 / 2 products of pairs of vectors. The 27 vectors are the 26
// embeddings and the output of the first MLP. The embedding tables are left out, because Shampoo is not used for them.
Tensors Recommendation() {
  Tensors tensors;
  const auto add_mlp = [&tensors](const std::string& name, const Dims& widths) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      const std::string layer = name + "." + std::to_string(i);
      Add(&tensors, layer + ".weight", {widths[i + 1], widths[i]});
      Add(&tensors, layer + ".bias", {widths[i + 1]});
    }
  };
  add_mlp("bottom", {13, 512, 256, 128});
  add_mlp("top", {479, 1024, 1024, 512, 256, 1});
  return tensors;
}

Tensors Vectors(int count, const Dims& sizes) {
  Tensors tensors;
  for (int i = 0; i < count; ++i) {
    Add(&tensors, "vector." + std::to_string(i), {sizes[static_cast<size_t>(i) % sizes.size()]});
  }
  return tensors;
}

}  // namespace

const std::vector<Case>& AllCases() {
  static const std::vector<Case> cases = {
      {"transformer", "8 matrices of 512x512 and 4 of 2048x512", Transformer(), {64, 128, 256, 512, 1024, 2048}},
      {"resnet50", "convolutions, normalizations and classifier of ResNet-50", ResNet50(), {1024}},
      {"gpt2", "GPT-2 124M", Gpt2(), {1024}},
      {"recommendation", "the MLPs of a DLRM with their biases", Recommendation(), {1024}},
      {"small_vectors",
       "1000 vectors of 64 to 1024 elements",
       Vectors(1000, {64, 96, 128, 192, 256, 384, 512, 768, 1024}),
       {1024}},
      {"tiny_vectors",
       "1000 vectors of 1 to 8 elements, which show the overhead per block",
       Vectors(1000, {1, 2, 3, 4, 5, 6, 7, 8}),
       {1024}},
      {"huge", "one matrix of 8192x8192", {{"weight", {8192, 8192}}}, {1024, 8192}},
  };
  return cases;
}

const Case& FindCase(const std::string& name) {
  for (const Case& known : AllCases()) {
    if (known.name == name) return known;
  }
  Fail("there is no case " + name + "; shampoo_bench --case list prints all cases");
}

int64_t Elements(const Dims& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t Parameters(const Case& model) {
  int64_t sum = 0;
  for (const Tensor& tensor : model.tensors) sum += Elements(tensor.shape);
  return sum;
}

std::string ShapeName(const Dims& shape) {
  std::string name;
  for (const int64_t d : shape) {
    if (!name.empty()) name += 'x';
    name += std::to_string(d);
  }
  return name;
}

}  // namespace bench
