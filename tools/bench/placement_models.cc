// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_models.h"

#include "tools/bench/arguments.h"
#include "tools/bench/fail.h"

namespace bench {
namespace {

constexpr int64_t kTokens = 8192;  // tokens of one rank in a step

class Tensors {
 public:
  void Add(const std::string& name, const Dims& shape) { list_.push_back({name, shape}); }
  void AddLinear(const std::string& name, int64_t out, int64_t in) {
    Add(name + ".weight", {out, in});
    Add(name + ".bias", {out});
  }
  void AddNorm(const std::string& name, int64_t width) {
    Add(name + ".weight", {width});
    Add(name + ".bias", {width});
  }
  // Adds a transformer layer of ViT or GPT-2, with biases. The width of the hidden layer of the MLP is 4 * width.
  void AddLayer(const std::string& name, int64_t width) {
    AddNorm(name + ".norm1", width);
    AddLinear(name + ".qkv", 3 * width, width);
    AddLinear(name + ".projection", width, width);
    AddNorm(name + ".norm2", width);
    AddLinear(name + ".up", 4 * width, width);
    AddLinear(name + ".down", width, 4 * width);
  }
  std::vector<Tensor> list() const { return list_; }

 private:
  std::vector<Tensor> list_;
};

// The model reads images of 224 x 224 pixels in patches of 16 x 16 pixels, and has 1000 classes.
std::vector<Tensor> VitLarge() {
  const int64_t width = 1024;
  Tensors tensors;
  tensors.Add("class_token", {1, 1, width});
  tensors.Add("positions", {1, 197, width});
  tensors.Add("patches.weight", {width, 3, 16, 16});
  tensors.Add("patches.bias", {width});
  for (int layer = 0; layer < 24; ++layer) tensors.AddLayer("layer" + std::to_string(layer), width);
  tensors.AddNorm("norm", width);
  tensors.AddLinear("head", 1000, width);
  return tensors.list();
}

// The output layer uses the parameters of the token embedding.
std::vector<Tensor> Gpt2Xl() {
  const int64_t width = 1600;
  Tensors tensors;
  tensors.Add("tokens", {50257, width});
  tensors.Add("positions", {1024, width});
  for (int layer = 0; layer < 48; ++layer) tensors.AddLayer("layer" + std::to_string(layer), width);
  tensors.AddNorm("norm", width);
  return tensors.list();
}

// A LLaMA model has a gated MLP and no biases. key_width: the number of rows of the key and value matrices. It is below
// width if several query heads share a key head.
std::vector<Tensor> Llama(int layers, int64_t width, int64_t key_width, int64_t hidden) {
  const int64_t vocabulary = 32000;
  Tensors tensors;
  tensors.Add("tokens", {vocabulary, width});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    tensors.Add(name + ".norm1", {width});
    tensors.Add(name + ".query", {width, width});
    tensors.Add(name + ".key", {key_width, width});
    tensors.Add(name + ".value", {key_width, width});
    tensors.Add(name + ".projection", {width, width});
    tensors.Add(name + ".norm2", {width});
    tensors.Add(name + ".gate", {hidden, width});
    tensors.Add(name + ".up", {hidden, width});
    tensors.Add(name + ".down", {width, hidden});
  }
  tensors.Add("norm", {width});
  tensors.Add("output", {vocabulary, width});
  return tensors.list();
}

Case CaseOf(const std::string& name, const std::vector<Tensor>& tensors) { return {name, "", tensors, {}}; }

Model ModelOf(const Case& shapes) { return {"shapes", shapes.about, shapes, kTokens, 0, ""}; }

// The models are in the order of the tables in docs/scaling.md.
std::vector<Model> AllModels() {
  return {
      // The step times of resnet50 and recommendation are assumed, in seconds. An estimate from flops, as for the other
      // models, would be too low: the convolutions of resnet50 and lookups in embedding tables take far more time per
      // flop than large matrix products.
      {"resnet50", "ResNet-50", FindCase("resnet50"), 0, 0.1, "256 images"},
      {"vit-l", "ViT-L/16", CaseOf("vit-l", VitLarge()), 64 * 197, 0, "64 images of 197 tokens"},
      {"gpt2-xl", "GPT-2 XL", CaseOf("gpt2-xl", Gpt2Xl()), kTokens, 0, ""},
      {"llama-7b", "LLaMA 7B", CaseOf("llama-7b", Llama(32, 4096, 4096, 11008)), kTokens, 0, ""},
      {"llama-70b", "LLaMA 70B", CaseOf("llama-70b", Llama(80, 8192, 1024, 28672)), kTokens, 0, ""},
      {"recommendation", "DLRM MLPs", FindCase("recommendation"), 0, 0.01, "8192 samples"},
  };
}

Model FindModel(const std::string& name) {
  for (const Model& model : AllModels()) {
    if (model.name == name) return model;
  }
  Fail("--model: there is no model " + name + "; --help lists all models");
}

}  // namespace

std::vector<Model> ChooseModels(const ModelChoice& choice) {
  if (!choice.names.empty() + !choice.shapes.empty() + !choice.shapes_file.empty() > 1) {
    Fail("use only one of --model, --shapes and --shapes-file");
  }
  if (choice.tokens != 0 && choice.step_seconds != 0) Fail("use only one of --tokens and --step-seconds");
  std::vector<Model> models;
  if (!choice.shapes.empty()) {
    models = {ModelOf(CaseOfShapes(choice.shapes))};
  } else if (!choice.shapes_file.empty()) {
    models = {ModelOf(CaseOfFile(choice.shapes_file))};
  } else if (choice.names.empty() || choice.names == "all") {
    models = AllModels();
  } else {
    for (const std::string& name : SplitList(choice.names, "--model")) models.push_back(FindModel(name));
  }
  for (Model& model : models) {
    if (choice.tokens != 0) model.tokens = choice.tokens, model.step_seconds = 0, model.batch = "";
    if (choice.step_seconds != 0) model.tokens = 0, model.step_seconds = choice.step_seconds, model.batch = "";
  }
  return models;
}

}  // namespace bench
