// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "language_training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "clock.h"
#include "random.h"

// Limit of the total number of tokens in the sequences that a thread processes at a time. If one sequence is longer,
// the thread processes it alone.
enum { kRowsAtOnce = 512 };

// Returns the value of BoundTensor::is_rest. The names of the embeddings, of the final norm and of the output matrix
// have no dot. All other parameters have names such as "layer0.qkv".
static int is_rest(const Tensor* tensor) { return strchr(tensor->name, '.') == NULL; }

static void contender_create(Contender* contender, const Training* training, const Method* method) {
  const Model* model = training->model;
  const size_t steps = (size_t)training->options->steps;
  uint64_t random_state = (uint64_t)training->options->seed;
  contender->params = allocate(model->values, sizeof(real));
  model_init(model, contender->params, &random_state);
  contender->losses = allocate(steps, sizeof(double));
  contender->gradient_seconds = allocate(steps, sizeof(double));
  contender->update_seconds = allocate(steps, sizeof(double));

  BoundTensor* tensors = allocate((size_t)model->tensor_count, sizeof *tensors);
  for (int t = 0; t < model->tensor_count; ++t) {
    const Tensor* tensor = &model->tensors[t];
    tensors[t] = (BoundTensor){.name = tensor->name,
                               .is_rest = is_rest(tensor),
                               .stacked = tensor->stacked,
                               .ndim = tensor->ndim,
                               .param = contender->params + tensor->offset,
                               .grad = training->grads + tensor->offset};
    for (int d = 0; d < tensor->ndim; ++d) tensors[t].shape[d] = tensor->shape[d];
  }
  shampoo_executor executor = SHAMPOO_EXECUTOR_INIT;
  executor.user = training->pool;
  executor.threads = pool_threads(training->pool);
  executor.parallel_for = pool_run;
  optimizer_create(&contender->optimizer, method, model->tensor_count, tensors, &executor, executor.threads);
  free(tensors);
}

void training_create(Training* training, const TrainingOptions* options, const Corpus* text, const Corpus* validation,
                     const Model* model, Pool* pool, const MethodList* methods) {
  *training = (Training){.options = options,
                         .text = text,
                         .validation = validation,
                         .model = model,
                         .pool = pool,
                         .count = methods->count};
  training->grads = allocate(model->values, sizeof(real));
  batch_create(&training->batch, model, pool, model->context < kRowsAtOnce ? kRowsAtOnce / model->context : 1);
  for (int c = 0; c < training->count; ++c) contender_create(&training->contenders[c], training, &methods->methods[c]);
}

void training_free(Training* training) {
  for (int c = 0; c < training->count; ++c) {
    Contender* contender = &training->contenders[c];
    optimizer_free(&contender->optimizer);
    free(contender->update_seconds);
    free(contender->gradient_seconds);
    free(contender->losses);
    free(contender->params);
  }
  batch_free(&training->batch);
  free(training->grads);
}

static void evaluate(Training* training) {
  const int context = training->model->context, windows = training->options->windows;
  const size_t room = training->validation->count - (size_t)context - 1;
  const uint8_t** texts = allocate((size_t)windows, sizeof(uint8_t*));
  for (int w = 0; w < windows; ++w) {
    texts[w] = training->validation->tokens + (windows > 1 ? room * (size_t)w / (size_t)(windows - 1) : 0);
  }
  for (int c = 0; c < training->count; ++c) {
    Contender* contender = &training->contenders[c];
    if (contender->point_count == kMaxPoints)
      fail("too many evaluations; expected at most %d. Increase --every", kMaxPoints);
    contender->point_steps[contender->point_count] = contender->steps;
    contender->point_losses[contender->point_count++] =
        contender->diverged ? NAN : batch_loss(&training->batch, contender->params, windows, texts, NULL);
  }
  free((void*)texts);
}

static void make_step(Training* training, Contender* contender, const uint8_t* const* texts) {
  const TrainingOptions* options = training->options;
  const int step = contender->steps;
  const double start = seconds();
  const double loss = batch_loss(&training->batch, contender->params, options->batch, texts, training->grads);
  const double middle = seconds();
  contender->losses[step] = loss;
  contender->gradient_seconds[step] = middle - start;
  contender->diverged =
      !isfinite(loss) || !optimizer_step(&contender->optimizer, schedule_share(step, options->steps, options->warmup));
  if (contender->diverged) return;
  contender->update_seconds[step] = seconds() - middle;
  contender->steps += 1;
}

static void draw(const Training* training, uint64_t* random_state, int count, const uint8_t** texts) {
  const int starts = (int)(training->text->count - (size_t)training->model->context);
  for (int s = 0; s < count; ++s) texts[s] = training->text->tokens + random_below(random_state, starts);
}

void training_run(Training* training, int count, const int* batches, double* times) {
  const TrainingOptions* options = training->options;
  // The initial weights were drawn with the seed itself. The batches need other random numbers.
  uint64_t random_state = (uint64_t)options->seed + 1000000007;
  uint64_t timed_state = random_state + 1;
  int largest = options->batch;
  for (int b = 0; b < count; ++b) largest = batches[b] > largest ? batches[b] : largest;
  const uint8_t** texts = allocate((size_t)largest, sizeof(uint8_t*));
  for (int step = 0; step < options->steps; ++step) {
    for (int b = 0; b < count; ++b) {
      draw(training, &timed_state, batches[b], texts);
      const double start = seconds();
      batch_loss(&training->batch, training->contenders[0].params, batches[b], texts, training->grads);
      times[b * options->steps + step] = seconds() - start;
    }
    draw(training, &random_state, options->batch, texts);
    for (int c = 0; c < training->count; ++c) {
      if (!training->contenders[c].diverged) make_step(training, &training->contenders[c], texts);
    }
    const int is_last = step + 1 == options->steps;
    if (is_last || (options->every > 0 && (step + 1) % options->every == 0)) evaluate(training);
  }
  free((void*)texts);
}
