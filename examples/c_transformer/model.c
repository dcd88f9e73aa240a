// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "random.h"

static void add(Model* model, const char* name, int layer, int d0, int d1, int d2) {
  Tensor* tensor = &model->tensors[model->tensor_count++];
  if (layer < 0) {
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
  } else {
    snprintf(tensor->name, sizeof tensor->name, "layer%d.%s", layer, name);
  }
  tensor->shape[0] = d0;
  tensor->shape[1] = d1;
  tensor->shape[2] = d2;
  tensor->ndim = d1 == 0 ? 1 : d2 == 0 ? 2 : 3;
  tensor->stacked = tensor->ndim == 3;
  tensor->offset = model->values;
  tensor->count = (size_t)d0 * (size_t)(d1 > 0 ? d1 : 1) * (size_t)(d2 > 0 ? d2 : 1);
  model->values += tensor->count;
}

void model_create(Model* model, int vocab, int context, int width, int heads, int layers) {
  if (width % heads != 0) fail("--width %d is not a multiple of --heads %d", width, heads);
  if (layers > kMaxLayers) fail("--layers %d is above %d", layers, kMaxLayers);
  memset(model, 0, sizeof *model);
  model->vocab = vocab;
  model->context = context;
  model->width = width;
  model->heads = heads;
  model->layers = layers;
  add(model, "token_embedding", -1, vocab, width, 0);
  add(model, "position_embedding", -1, context, width, 0);
  for (int l = 0; l < layers; ++l) {
    add(model, "norm1_gain", l, width, 0, 0);
    add(model, "norm1_bias", l, width, 0, 0);
    add(model, "qkv", l, 3, width, width);
    add(model, "project", l, width, width, 0);
    add(model, "norm2_gain", l, width, 0, 0);
    add(model, "norm2_bias", l, width, 0, 0);
    add(model, "up", l, 4 * width, width, 0);
    add(model, "down", l, width, 4 * width, 0);
  }
  add(model, "final_gain", -1, width, 0, 0);
  add(model, "final_bias", -1, width, 0, 0);
  add(model, "output", -1, vocab, width, 0);
}

int model_tensor(const Model* model, Role role, int layer) {
  if (role <= kPositionEmbedding) return role;
  if (role >= kNorm1Gain) return 2 + layer * kTensorsPerLayer + (role - kNorm1Gain);
  return 2 + model->layers * kTensorsPerLayer + (role - kFinalGain);
}

// Draws values uniformly from -limit to limit.
static void draw(real* values, size_t count, double limit, uint64_t* random_state) {
  for (size_t i = 0; i < count; ++i) values[i] = (real)(limit * (2 * random_uniform(random_state) - 1));
}

static void fill(real* values, size_t count, real value) {
  for (size_t i = 0; i < count; ++i) values[i] = value;
}

void model_init(const Model* model, real* params, uint64_t* random_state) {
  const double root3 = sqrt(3.0);  // the standard deviation of a uniform number in [-limit, limit] is limit / sqrt(3)
  const double residual = 1 / sqrt(2.0 * model->layers);
  for (int t = 0; t < model->tensor_count; ++t) {
    const Tensor* tensor = &model->tensors[t];
    real* values = params + tensor->offset;
    const char* kind = strchr(tensor->name, '.') != NULL ? strchr(tensor->name, '.') + 1 : tensor->name;
    if (tensor->ndim == 1) {
      fill(values, tensor->count, strstr(kind, "gain") != NULL ? 1 : 0);
    } else if (strstr(kind, "embedding") != NULL || strcmp(kind, "output") == 0) {
      draw(values, tensor->count, 0.02 * root3, random_state);
    } else {
      const int into_stream = strcmp(kind, "project") == 0 || strcmp(kind, "down") == 0;
      const double deviation = (into_stream ? residual : 1) / sqrt(tensor->shape[tensor->ndim - 1]);
      draw(values, tensor->count, deviation * root3, random_state);
    }
  }
}
