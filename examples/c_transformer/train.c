// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // clock_gettime
#include "train.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "random.h"

// Largest number of characters that a thread processes at a time, unless a single sequence is longer.
enum { kRowsAtOnce = 512 };

// For each optimizer, its preset in libshampoo. NULL: the library's defaults apply (Shampoo), or the library is not
// used (AdamW).
static const char* const kPresets[kOptimizers] = {[kSoap] = "soap", [kKlShampoo] = "kl_shampoo", [kMuon] = "muon"};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void training_create(Training* training, const Options* options, const Text* text, const Model* model, Pool* pool) {
  const size_t steps = (size_t)options->steps;
  training->options = options;
  training->text = text;
  training->model = model;
  training->pool = pool;
  training->step = 0;
  training->grads = allocate(model->values, sizeof(real));
  batch_create(&training->batch, model, pool, model->context < kRowsAtOnce ? kRowsAtOnce / model->context : 1);
  for (int c = 0; c < training->count; ++c) {
    Contender* contender = &training->contenders[c];
    uint64_t random_state = (uint64_t)options->seed;
    contender->params = allocate(model->values, sizeof(real));
    model_init(model, contender->params, &random_state);
    if (contender->optimizer != kAdamw) {
      with_shampoo_create(&contender->shampoo, model, pool, contender->params, training->grads,
                          kPresets[contender->optimizer], &options->settings, contender->frequency, contender->lr);
    } else {
      adamw_create(&contender->adamw, model, pool, options->weight_decay);
    }
    contender->gradient_seconds = allocate(steps, sizeof(double));
    contender->update_seconds = allocate(steps, sizeof(double));
    contender->losses = allocate(steps, sizeof(double));
    contender->points = allocate(steps / (size_t)options->every + 2, sizeof(Point));
    contender->point_count = 0;
    contender->diverged = 0;
  }
}

void training_free(Training* training) {
  for (int c = 0; c < training->count; ++c) {
    Contender* contender = &training->contenders[c];
    if (contender->optimizer != kAdamw) {
      with_shampoo_free(&contender->shampoo);
    } else {
      adamw_free(&contender->adamw);
    }
    free(contender->points);
    free(contender->losses);
    free(contender->update_seconds);
    free(contender->gradient_seconds);
    free(contender->params);
  }
  batch_free(&training->batch);
  free(training->grads);
}

double training_schedule(const Options* options, int step) {
  if (step < options->warmup) return (step + 1.0) / options->warmup;
  return 0.5 * (1 + cos(3.14159265358979323846 * (step - options->warmup) / (options->steps - options->warmup)));
}

// Adds a point to the curve of each contender: the time, and the losses on training and validation text. The
// validation text is divided into sequences.
static void evaluate(Training* training) {
  const Text* text = training->text;
  const int context = training->model->context, count = (int)((text->validation_count - 1) / (size_t)context);
  const uint8_t** texts = allocate((size_t)count, sizeof(uint8_t*));
  for (int s = 0; s < count; ++s) texts[s] = text->tokens + text->count + (size_t)s * (size_t)context;
  for (int c = 0; c < training->count; ++c) {
    Contender* contender = &training->contenders[c];
    Point* point = &contender->points[contender->point_count];
    const int first = contender->point_count > 0 ? point[-1].step : 0;
    point->step = training->step;
    point->seconds = contender->point_count > 0 ? point[-1].seconds : 0;
    point->train_loss = 0;
    for (int s = first; s < training->step; ++s) {
      point->seconds += contender->gradient_seconds[s] + contender->update_seconds[s];
      point->train_loss += contender->losses[s];
    }
    point->train_loss /= training->step - first;
    point->validation_loss =
        contender->diverged ? NAN : batch_loss(&training->batch, contender->params, count, texts, NULL);
    contender->point_count += 1;
  }
  free((void*)texts);
}

static void make_step(Training* training, Contender* contender, const uint8_t* const* texts) {
  const int step = training->step;
  const double lr = contender->lr * training_schedule(training->options, step);
  const double start = seconds();
  const double loss = batch_loss(&training->batch, contender->params, training->options->batch, texts, training->grads);
  const double middle = seconds();
  contender->losses[step] = loss;
  contender->gradient_seconds[step] = middle - start;
  contender->diverged = !isfinite(loss);
  if (contender->diverged) return;
  if (contender->optimizer != kAdamw) {
    with_shampoo_step(&contender->shampoo, lr);
  } else {
    adamw_step(&contender->adamw, lr, contender->params, training->grads);
  }
  contender->update_seconds[step] = seconds() - middle;
}

void training_run(Training* training, void (*on_evaluation)(const Training*), void (*on_step)(const Training*)) {
  const Options* options = training->options;
  uint64_t random_state = (uint64_t)options->seed + 1000000007;  // not the seed with which the weights are drawn
  const uint8_t** texts = allocate((size_t)options->batch, sizeof(uint8_t*));
  const int starts = (int)(training->text->count - (size_t)training->model->context);
  evaluate(training);
  on_evaluation(training);
  while (training->step < options->steps) {
    for (int s = 0; s < options->batch; ++s) texts[s] = training->text->tokens + random_below(&random_state, starts);
    for (int c = 0; c < training->count; ++c) {
      Contender* contender = &training->contenders[c];
      if (contender->diverged) {
        contender->losses[training->step] = NAN;
      } else {
        make_step(training, contender, texts);
      }
    }
    training->step += 1;
    on_step(training);
    if (training->step % options->every == 0 || training->step == options->steps) {
      evaluate(training);
      on_evaluation(training);
    }
  }
  free((void*)texts);
}
