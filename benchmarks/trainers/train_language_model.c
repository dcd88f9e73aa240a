// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains a small transformer on a text and prints the result of each method as JSON.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "clock.h"
#include "command_line.h"
#include "json.h"
#include "language_training.h"

const char program_name[] = "train_language_model";

static const char kAbout[] =
    "Trains a transformer on a text with one method, or with several methods that take turns step by step.\n"
    "Prints losses and times as JSON.\n";

typedef struct {
  TrainingOptions training;
  int context, width, heads, layers, threads;
  int show_times;
  const char* text;
  const char* validation;
  const char* batches;
  MethodList methods;
} Options;

static void parse(Options* options, int argc, char** argv) {
  *options = (Options){
      .training = {.steps = 300, .warmup = 30, .batch = 16, .seed = 1, .windows = 256},
      .context = 128,
      .width = 128,
      .heads = 4,
      .layers = 3,
      .threads = 2,
      .text = "",
      .validation = "",
      .batches = "",
  };
  TrainingOptions* training = &options->training;
  const Option table[] = {
      option_call("--optimizer", "OPTIONS", method_list_add, &options->methods,
                  "a method, such as \"preset=soap lr=0.003\"; may be repeated"),
      option_call("--rest", "OPTIONS", method_list_set_rest, &options->methods,
                  "the method of embeddings, output layer and vectors; default: the preceding --optimizer"),
      option_text("--text", "FILE", &options->text, "the training text"),
      option_text("--validation", "FILE", &options->validation, "the text on which the validation loss is computed"),
      option_integer("--steps", &training->steps, 1, INT_MAX / 2,
                     "steps of the training; the learning-rate schedule ends with the last step"),
      option_integer("--warmup", &training->warmup, 0, INT_MAX / 2, "steps in which the learning rate rises"),
      option_integer("--every", &training->every, 0, INT_MAX, "steps between evaluations; 0 evaluates only at the end"),
      option_integer("--windows", &training->windows, 1, 1 << 20, "sequences in an evaluation"),
      option_integer("--batch", &training->batch, 1, 1 << 20, "sequences in a step"),
      option_integer("--seed", &training->seed, 0, INT_MAX / 2, "seed of the initial weights and of the batches"),
      option_integer("--context", &options->context, 1, 1 << 16, "tokens in a sequence"),
      option_integer("--width", &options->width, 1, 1 << 16, "width of the residual stream"),
      option_integer("--heads", &options->heads, 1, 1 << 16, "attention heads; must divide the width"),
      option_integer("--layers", &options->layers, 1, kMaxLayers, "layers"),
      option_integer("--threads", &options->threads, 1, 1024, "threads"),
      option_flag("--times", &options->show_times, 1, "print how long the update takes in each step"),
      option_text("--batches", "N,N,...", &options->batches,
                  "also measure how long a gradient takes with these batch sizes"),
      {0}};
  command_line_parse(argc, argv, kAbout, table, NULL);
  if (options->methods.count == 0) fail("no --optimizer; expected at least one");
  if (training->warmup >= training->steps) {
    fail("--warmup is %d: expected less than --steps, which is %d", training->warmup, training->steps);
  }
}

// Parses batch sizes that are separated by commas. Returns the number of sizes.
static int parse_batches(const char* text, int* batches) {
  int count = 0;
  while (*text != '\0') {
    char* end;
    const long value = strtol(text, &end, 10);
    if (end == text || value < 1 || value > 1 << 20) {
      fail("--batches: \"%s\"; expected integers from 1 to 1048576, separated by commas", text);
    }
    if (count == kMaxBatches) fail("--batches has too many sizes; expected at most %d", kMaxBatches);
    batches[count++] = (int)value;
    text = *end == ',' ? end + 1 : end;
  }
  return count;
}

// Returns the training loss, averaged over the last 10 % of the steps.
static double last_losses(const Contender* contender) {
  if (contender->diverged) return NAN;
  const int count = contender->steps / 10 > 0 ? contender->steps / 10 : 1;
  double sum = 0;
  for (int s = contender->steps - count; s < contender->steps; ++s) sum += contender->losses[s];
  return sum / count;
}

static void print_contender(const Contender* contender, int show_times) {
  double update = 0;
  for (int s = 0; s < contender->steps; ++s) update += contender->update_seconds[s];
  printf("{\"diverged\": %s, \"steps\": %d, \"validation_loss\": ", contender->diverged ? "true" : "false",
         contender->steps);
  json_number(contender->point_losses[contender->point_count - 1]);
  printf(", \"training_loss\": ");
  json_number(last_losses(contender));
  printf(", \"state_bytes\": %lld, \"update_ms\": ", (long long)contender->optimizer.state_bytes);
  json_number(contender->steps > 0 ? 1e3 * update / contender->steps : 0);
  printf(", \"curve\": [");
  for (int p = 0; p < contender->point_count; ++p) {
    printf("%s[%d, ", p > 0 ? ", " : "", contender->point_steps[p]);
    json_number(contender->point_losses[p]);
    printf("]");
  }
  printf("]");
  if (show_times) {
    printf(", \"update_ms_of_steps\": [");
    for (int s = 0; s < contender->steps; ++s) printf("%s%.4f", s > 0 ? ", " : "", 1e3 * contender->update_seconds[s]);
    printf("]");
  }
  printf(", \"gradient_ms\": ");
  json_number(1e3 * median(contender->steps, contender->gradient_seconds));  // median() sorts gradient_seconds
  printf("}");
}

static void print_result(const Options* options, const Training* training, int batch_count, const int* batches,
                         double* times) {
  const int version = (int)shampoo_version();
  printf("{\"version\": \"%d.%d.%d\", \"parameters\": %zu, \"methods\": [", version / 10000, version / 100 % 100,
         version % 100, training->model->values);
  for (int c = 0; c < training->count; ++c) {
    if (c > 0) printf(", ");
    print_contender(&training->contenders[c], options->show_times);
  }
  printf("], \"batches\": [");
  for (int b = 0; b < batch_count; ++b) {
    printf("%s[%d, ", b > 0 ? ", " : "", batches[b]);
    json_number(1e3 * median(options->training.steps, times + b * options->training.steps));
    printf("]");
  }
  printf("]}\n");
}

int main(int argc, char** argv) {
  static Training training;  // static because it is large
  static Model model;
  static Options options;
  Corpus text, validation;
  int batches[kMaxBatches];

  parse(&options, argc, argv);
  multiply_on_calling_threads(options.threads);
  const int batch_count = parse_batches(options.batches, batches);
  corpus_read(&text, options.text, (size_t)options.context);
  corpus_read(&validation, options.validation, (size_t)options.context);
  Pool* pool = pool_create(options.threads);
  model_create(&model, kVocabulary, options.context, options.width, options.heads, options.layers);
  training_create(&training, &options.training, &text, &validation, &model, pool, &options.methods);
  double* times = allocate((size_t)batch_count * (size_t)options.training.steps + 1, sizeof(double));
  training_run(&training, batch_count, batches, times);
  print_result(&options, &training, batch_count, batches, times);

  free(times);
  training_free(&training);
  pool_free(pool);
  corpus_free(&validation);
  corpus_free(&text);
  return 0;
}
