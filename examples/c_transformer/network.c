// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "network.h"

#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "check.h"
#include "layers.h"

void memory_create(Memory* memory, const Model* model, int sequences) {
  const size_t context = (size_t)model->context, rows = (size_t)sequences * context, width = (size_t)model->width;
  memory->sequences = sequences;
  for (int l = 0; l < model->layers; ++l) {
    LayerMemory* layer = &memory->layers[l];
    layer->in = allocate(rows * width, sizeof(real));
    layer->norm1 = allocate(rows * width, sizeof(real));
    layer->stats1 = allocate(rows * 2, sizeof(real));
    layer->qkv = allocate(rows * 3 * width, sizeof(real));
    layer->weights = allocate(rows * context * (size_t)model->heads, sizeof(real));
    layer->mixed = allocate(rows * width, sizeof(real));
    layer->middle = allocate(rows * width, sizeof(real));
    layer->norm2 = allocate(rows * width, sizeof(real));
    layer->stats2 = allocate(rows * 2, sizeof(real));
    layer->up = allocate(rows * 4 * width, sizeof(real));
    layer->gelu = allocate(rows * 4 * width, sizeof(real));
  }
  memory->last = allocate(rows * width, sizeof(real));
  memory->norm = allocate(rows * width, sizeof(real));
  memory->stats = allocate(rows * 2, sizeof(real));
  memory->scores = allocate(rows * (size_t)model->vocab, sizeof(real));
  memory->d_stream = allocate(rows * width, sizeof(real));
  memory->d_small = allocate(rows * width, sizeof(real));
  memory->d_large = allocate(rows * 4 * width, sizeof(real));
  memory->d_weights = allocate(context * context, sizeof(real));
}

void memory_free(Memory* memory, const Model* model) {
  for (int l = 0; l < model->layers; ++l) {
    LayerMemory* k = &memory->layers[l];
    real* const buffers[] = {k->in,     k->norm1, k->stats1, k->qkv, k->weights, k->mixed,
                             k->middle, k->norm2, k->stats2, k->up,  k->gelu};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i) free(buffers[i]);
  }
  real* const buffers[] = {memory->last,     memory->norm,    memory->stats,   memory->scores,
                           memory->d_stream, memory->d_small, memory->d_large, memory->d_weights};
  for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i) free(buffers[i]);
}

// param() returns the address of the values of a parameter. grad() returns the address of its gradient.
static const real* param(const Model* model, const real* params, Role role, int layer) {
  return params + model->tensors[model_tensor(model, role, layer)].offset;
}

static real* grad(const Model* model, real* grads, Role role, int layer) {
  return grads + model->tensors[model_tensor(model, role, layer)].offset;
}

static void forward(const Model* model, const real* p, Memory* memory, int sequences, const uint8_t* const* texts) {
  const int context = model->context, n = sequences * context, w = model->width;
  const size_t row_bytes = sizeof(real) * (size_t)w, stream_bytes = row_bytes * (size_t)n;
  const real* positions = param(model, p, kPositionEmbedding, 0);
  for (int r = 0; r < n; ++r) {
    const real* token = param(model, p, kTokenEmbedding, 0) + (size_t)texts[r / context][r % context] * (size_t)w;
    real* x = memory->layers[0].in + (size_t)r * (size_t)w;
    memcpy(x, token, row_bytes);
    for (int i = 0; i < w; ++i) x[i] += positions[r % context * w + i];
  }
  for (int l = 0; l < model->layers; ++l) {
    LayerMemory* k = &memory->layers[l];
    real* out = l + 1 < model->layers ? k[1].in : memory->last;
    norm_forward(n, w, k->in, param(model, p, kNorm1Gain, l), param(model, p, kNorm1Bias, l), k->norm1, k->stats1);
    linear_forward(n, w, 3 * w, k->norm1, param(model, p, kQkv, l), 0, k->qkv);
    attention_forward(sequences, context, w, model->heads, k->qkv, k->weights, k->mixed);
    memcpy(k->middle, k->in, stream_bytes);
    linear_forward(n, w, w, k->mixed, param(model, p, kProject, l), 1, k->middle);

    norm_forward(n, w, k->middle, param(model, p, kNorm2Gain, l), param(model, p, kNorm2Bias, l), k->norm2, k->stats2);
    linear_forward(n, w, 4 * w, k->norm2, param(model, p, kUp, l), 0, k->up);
    gelu_forward((size_t)n * (size_t)w * 4, k->up, k->gelu);
    memcpy(out, k->middle, stream_bytes);
    linear_forward(n, 4 * w, w, k->gelu, param(model, p, kDown, l), 1, out);
  }
  norm_forward(n, w, memory->last, param(model, p, kFinalGain, 0), param(model, p, kFinalBias, 0), memory->norm,
               memory->stats);
  linear_forward(n, w, model->vocab, memory->norm, param(model, p, kOutput, 0), 0, memory->scores);
}

// Adds the gradient of the loss with respect to the parameters to g. memory->scores must contain the gradient with
// respect to the scores.
static void backward(const Model* model, const real* p, Memory* memory, int sequences, const uint8_t* const* texts,
                     real* g) {
  const int context = model->context, n = sequences * context, w = model->width;
  real *d_stream = memory->d_stream, *d_small = memory->d_small, *d_large = memory->d_large;
  memset(d_stream, 0, sizeof(real) * (size_t)n * (size_t)w);
  linear_backward(n, w, model->vocab, memory->norm, param(model, p, kOutput, 0), memory->scores,
                  grad(model, g, kOutput, 0), d_small);
  norm_backward(n, w, memory->last, param(model, p, kFinalGain, 0), memory->stats, d_small,
                grad(model, g, kFinalGain, 0), grad(model, g, kFinalBias, 0), d_stream);
  for (int l = model->layers - 1; l >= 0; --l) {
    const LayerMemory* k = &memory->layers[l];
    linear_backward(n, 4 * w, w, k->gelu, param(model, p, kDown, l), d_stream, grad(model, g, kDown, l), d_large);
    gelu_backward((size_t)n * (size_t)w * 4, k->up, d_large);
    linear_backward(n, w, 4 * w, k->norm2, param(model, p, kUp, l), d_large, grad(model, g, kUp, l), d_small);
    norm_backward(n, w, k->middle, param(model, p, kNorm2Gain, l), k->stats2, d_small, grad(model, g, kNorm2Gain, l),
                  grad(model, g, kNorm2Bias, l), d_stream);

    linear_backward(n, w, w, k->mixed, param(model, p, kProject, l), d_stream, grad(model, g, kProject, l), d_small);
    attention_backward(sequences, context, w, model->heads, k->qkv, k->weights, d_small, memory->d_weights, d_large);
    linear_backward(n, w, 3 * w, k->norm1, param(model, p, kQkv, l), d_large, grad(model, g, kQkv, l), d_small);
    norm_backward(n, w, k->in, param(model, p, kNorm1Gain, l), k->stats1, d_small, grad(model, g, kNorm1Gain, l),
                  grad(model, g, kNorm1Bias, l), d_stream);
  }
  real* d_positions = grad(model, g, kPositionEmbedding, 0);
  for (int r = 0; r < n; ++r, d_stream += w) {
    real* d_token = grad(model, g, kTokenEmbedding, 0) + (size_t)texts[r / context][r % context] * (size_t)w;
    for (int i = 0; i < w; ++i) d_token[i] += d_stream[i];
    for (int i = 0; i < w; ++i) d_positions[r % context * w + i] += d_stream[i];
  }
}

double network_loss(const Model* model, const real* params, Memory* memory, int sequences, const uint8_t* const* texts,
                    real scale, real* grads) {
  double loss = 0;
  forward(model, params, memory, sequences, texts);
  for (int s = 0; s < sequences; ++s) {
    real* scores = memory->scores + (size_t)s * (size_t)model->context * (size_t)model->vocab;
    loss += cross_entropy(model->context, model->vocab, scores, texts[s] + 1, scale);
  }
  if (grads != NULL) backward(model, params, memory, sequences, texts, grads);
  return loss;
}
