// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Trains the model of model.h on the text of text.h with one of Shampoo, SOAP, KL-Shampoo, Muon and AdamW, or with
// several of them side by side.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "report.h"

const char program_name[] = "train_text";

enum { kTextSize = 1 << 20, kValidationSize = (1 << 14) + 1 };

static const char* const kNames[kOptimizers] = {"AdamW", "Shampoo", "SOAP", "KL-Shampoo", "Muon"};
static const double kSearchedRates[] = {0.0005, 0.001, 0.002, 0.004, 0.008};
enum { kRates = sizeof kSearchedRates / sizeof kSearchedRates[0] };

// Exits with an error if the file cannot be written. main() calls this function before the training, so that a run does
// not fail at its end.
static void check_writable(const char* path) {
  if (path[0] != '\0') close_file(open_file(path, "a"), path);
}

static void add(Training* training, int optimizer, int frequency, double lr, const char* name) {
  Contender* contender = &training->contenders[training->count++];
  contender->optimizer = optimizer;
  contender->frequency = frequency;
  contender->lr = lr;
  snprintf(contender->name, sizeof contender->name, "%s", name);
}

static void add_contenders(Training* training, const Options* options) {
  if (options->what == kCompare) {
    for (int o = 0; o < kOptimizers; ++o) add(training, o, 0, options->lr[o], kNames[o]);
  } else if (options->what == kCompareFrequencies) {
    add(training, kAdamw, 0, options->lr[kAdamw], "AdamW");
    add(training, kShampoo, 1, options->lr[kShampoo], "Shampoo every step");
    add(training, kShampoo, 10, options->lr[kShampoo], "Shampoo every 10th");
    add(training, kShampoo, 50, options->lr[kShampoo], "Shampoo every 50th");
  } else if (options->what == kSearch) {
    for (int i = 0; i < kRates; ++i) {
      char name[48];
      snprintf(name, sizeof name, "%s %g", kNames[options->optimizer], kSearchedRates[i]);
      add(training, options->optimizer, 0, kSearchedRates[i], name);
    }
  } else {
    add(training, options->optimizer, 0, options->lr[options->optimizer], kNames[options->optimizer]);
  }
}

static void print_head(const Training* training) {
  const Model* model = training->model;
  const Options* options = training->options;
  const int version = (int)shampoo_version();
  printf("libshampoo %d.%d.%d, %d threads\n", version / 10000, version / 100 % 100, version % 100, options->threads);
  printf("text        %zu training characters, %zu validation characters, %d distinct\n", training->text->count,
         training->text->validation_count, model->vocab);
  printf("model       %d layers, width %d, %d heads, context %d, %zu parameters\n", model->layers, model->width,
         model->heads, model->context, model->values);
  printf("steps       %d of %d characters\n", options->steps, options->batch * model->context);
  for (int c = 0; c < training->count; ++c) {
    const Contender* contender = &training->contenders[c];
    if (c > 0 && contender->optimizer == contender[-1].optimizer) continue;
    printf("%s%s ", c == 0 ? "state       " : ", ", kNames[contender->optimizer]);
    if (contender->optimizer == kAdamw) {
      printf("%.1f MiB", 2.0 * sizeof(real) * (double)model->values / 1048576);
    } else {
      printf("%.1f MiB in %d blocks", (double)contender->shampoo.state_bytes / 1048576, (int)contender->shampoo.blocks);
    }
  }
  printf("\n");
}

static void print_roots(const Training* training) {
  printf("\n");
  for (int c = 0; c < training->count; ++c) {
    const Contender* contender = &training->contenders[c];
    if (contender->optimizer == kAdamw || contender->optimizer == kMuon) continue;
    printf("%-22s  %.0f %s (%.0f of them retried), %.0f reused\n", contender->name,
           with_shampoo_stat(&contender->shampoo, "root_computed"),
           contender->optimizer == kShampoo ? "inverse roots" : "eigenbases",
           with_shampoo_stat(&contender->shampoo, "root_retried"),
           with_shampoo_stat(&contender->shampoo, "root_reused"));
  }
}

int main(int argc, char** argv) {
  static Training training;  // static because it is large; zero-initialized
  static Model model;
  Options options;
  Text text;

  options_parse(&options, argc, argv);
  multiply_on_calling_threads(options.threads);
  check_writable(options.csv);
  if (options.context >= kValidationSize) fail("--context %d is not below %d", options.context, kValidationSize);
  Pool* pool = pool_create(options.threads);
  text_create(&text, kTextSize, kValidationSize);
  model_create(&model, text.vocab, options.context, options.width, options.heads, options.layers);
  add_contenders(&training, &options);
  training_create(&training, &options, &text, &model, pool);

  print_head(&training);
  report_head(&training);
  training_run(&training, report_evaluation, report_progress);
  report_results(&training);
  print_roots(&training);
  if (options.csv[0] != '\0') report_csv(options.csv, &training);

  training_free(&training);
  text_free(&text);
  pool_free(pool);
  settings_free(&options.settings);
  return 0;
}
