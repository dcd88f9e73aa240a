// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The parameters of the model, a character-level decoder. All parameters are in one flat buffer, and all gradients are
// in another. Both buffers have the order of this table:
//
//   token_embedding [vocab][width]   position_embedding [context][width]
//   of every layer: norm1_gain, norm1_bias [width], qkv [3][width][width], project [width][width],
//                   norm2_gain, norm2_bias [width], up [4 * width][width], down [width][4 * width]
//   final_gain, final_bias [width]   output [vocab][width]
//
// A matrix W computes y = W x. W is row-major and has one row per output. Only the layer normalizations (norm1, norm2,
// final) have biases.
#ifndef C_TRANSFORMER_MODEL_H
#define C_TRANSFORMER_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "numeric.h"

enum { kMaxLayers = 64, kTensorsPerLayer = 8, kMaxTensors = 5 + kMaxLayers * kTensorsPerLayer };

// The use of a parameter in this model. The roles of libshampoo, such as SHAMPOO_HEAD, are unrelated.
typedef enum {
  kTokenEmbedding,
  kPositionEmbedding,
  kFinalGain,
  kFinalBias,
  kOutput,
  kNorm1Gain,  // kNorm1Gain and all later roles occur once in each layer
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
  int stacked;  // 1: the first dim stacks separate matrices (query, key and value)
  int ndim;
  int shape[3];
  size_t offset;  // index of the parameter's first value in the flat buffers
  size_t count;   // number of values of the parameter
} Tensor;

typedef struct {
  int vocab;    // number of distinct characters
  int context;  // number of characters in a sequence
  int width;
  int heads;  // number of attention heads, a divisor of width
  int layers;
  int tensor_count;
  Tensor tensors[kMaxTensors];
  size_t values;  // number of values of all tensors
} Model;

// Sets the sizes of the model and fills its table of tensors.
void model_create(Model* model, int vocab, int context, int width, int heads, int layers);

// Returns the index of a parameter in model->tensors. layer is ignored for roles that occur only once.
int model_tensor(const Model* model, Role role, int layer);

// Draws initial values. Gains are 1, and biases are 0. All other values are uniformly distributed around 0. Their
// standard deviation is 0.02 for embeddings and output, and 1 / sqrt(columns) for qkv and up. For project and down, it
// is 1 / sqrt(2 * layers * columns), because the residual stream sums the outputs of these 2 * layers matrices.
void model_init(const Model* model, real* params, uint64_t* random_state);

#endif
