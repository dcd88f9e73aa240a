// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The model: which parameters a decoder of characters has, and where they lie. All are in one flat buffer, all
// gradients in another, in the order of the table.
//
//   token_embedding [vocab][width]   position_embedding [context][width]
//   of every layer: norm1_gain, norm1_bias [width], qkv [3][width][width], project [width][width],
//                   norm2_gain, norm2_bias [width], up [4 width][width], down [width][4 width]
//   final_gain, final_bias [width]   output [vocab][width]
//
// A layer computes y = W x; W is row-major, a row per output, and there are no biases but those of the norms.
#ifndef C_TRANSFORMER_MODEL_H
#define C_TRANSFORMER_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "numeric.h"

enum { kMaxLayers = 64, kTensorsPerLayer = 8, kMaxTensors = 5 + kMaxLayers * kTensorsPerLayer };

typedef enum {
  kTokenEmbedding,
  kPositionEmbedding,
  kFinalGain,
  kFinalBias,
  kOutput,
  kNorm1Gain,  // from here on: one in each layer
  kNorm1Bias,
  kQkv,
  kProject,
  kNorm2Gain,
  kNorm2Bias,
  kUp,
  kDown
} Role;

// One parameter.
typedef struct {
  char name[32];
  int stacked;  // 1: the first dim only stacks separate matrices, query, key and value
  int ndim;
  int shape[3];
  size_t offset;  // into the flat buffers
  size_t count;   // number of values
} Tensor;

typedef struct {
  int vocab;    // number of distinct characters
  int context;  // characters that are seen at once
  int width;
  int heads;  // divides width
  int layers;
  int tensor_count;
  Tensor tensors[kMaxTensors];
  size_t values;  // of all tensors
} Model;

// Fills the table.
void model_create(Model* model, int vocab, int context, int width, int heads, int layers);

// Index of a parameter in the table; layer is not looked at where the role has only one.
int model_tensor(const Model* model, Role role, int layer);

// Draws first values: gains 1, biases 0, all else uniformly around 0. Embeddings and output have a deviation of 0.02,
// other weights of 1 / sqrt(inputs); project and down, which write into the residual stream, of 1 / sqrt(2 layers) of
// that, since the stream sums up so many.
void model_init(const Model* model, real* params, uint64_t* random_state);

#endif
