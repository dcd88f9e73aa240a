// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that is not linked with libshampoo, but loads the library at run time. It trains the network of
// examples/c_mlp on handwritten digits. Its losses equal those of Shampoo in examples/c_mlp, because the initial
// weights, the batches and the settings are equal.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "command_line.h"
#include "digits.h"
#include "library.h"
#include "mlp.h"
#include "progress.h"
#include "random.h"

const char program_name[] = "host";

typedef struct {
  const char* library;
  const char* data;
  const char* csv;
  int epochs;
} Options;

enum { kBatch = 64 };

static Options parse(int argc, char** argv) {
  Options options = {library_soname, "../c_mlp/data/digits.bin", NULL, 25};
  const Option table[] = {
      option_text("--library", "FILE", &options.library, "the library: a path, or a name that the system searches for"),
      option_text("--data", "FILE", &options.data, "the images"),
      option_integer("--epochs", &options.epochs, 1, 100000, "passes over the training images"),
      option_text("--csv", "FILE", &options.csv, "receives the loss of each epoch; by default no file is written"),
      {0}};
  command_line_parse(argc, argv, "Loads libshampoo and trains a 64-128-64-10 network on handwritten digits.\n", table,
                     NULL);
  return options;
}

static void log_message(void* user, int32_t level, const char* message) {
  (void)user, (void)level;
  fprintf(stderr, "libshampoo: %s\n", message);
}

static void print_library(const shampoo_api* api) {
  printf("library     %s\n", api->build_info());
  for (int32_t b = 0; b < api->backend_count(); ++b) {
    shampoo_backend_info info = SHAMPOO_BACKEND_INFO_INIT;
    library_check(api, api->backend_describe(b, &info), "backend");
    printf("backend     %s: %s\n", info.name, info.usable ? "usable" : info.unavailable_reason);
  }
}

static shampoo_config* make_config(const shampoo_api* api) {
  static const char* const settings[][2] = {{"lr", "0.03"}, {"weight_decay", "0.1"}};
  shampoo_config* config;
  library_check(api, api->config_create(&config), "config");
  for (size_t s = 0; s < sizeof settings / sizeof settings[0]; ++s) {
    library_check(api, api->config_set_str(config, settings[s][0], settings[s][1]), settings[s][0]);
  }
  return config;
}

static shampoo_plan* make_plan(const shampoo_api* api, const shampoo_config* config) {
  shampoo_plan* plan;
  const shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  library_check(api, api->plan_create(&plan, config, &desc), "plan");
  for (int t = 0; t < kTensors; ++t) {
    shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
    param.name = mlp_tensors[t].name;
    param.ndim = mlp_tensors[t].ndim;
    for (int d = 0; d < param.ndim; ++d) param.shape[d] = mlp_tensors[t].shape[d];
    library_check(api, api->plan_add_param(plan, &param, NULL), param.name);
  }
  library_check(api, api->plan_finish(plan), "plan");
  return plan;
}

static shampoo_optimizer* make_optimizer(const shampoo_api* api, const Mlp* net) {
  shampoo_config* const config = make_config(api);
  shampoo_plan* const plan = make_plan(api, config);
  shampoo_optimizer* optimizer;
  const shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  library_check(api, api->optimizer_create(&optimizer, plan, &desc), "optimizer");

  shampoo_buffers buffers[kTensors];
  for (int t = 0; t < kTensors; ++t) {
    const shampoo_buffers empty = SHAMPOO_BUFFERS_INIT;
    buffers[t] = empty;
    buffers[t].param = buffers[t].out = net->params + mlp_tensors[t].offset;
    buffers[t].grad = net->grads + mlp_tensors[t].offset;
  }
  library_check(api, api->optimizer_bind(optimizer, 0, kTensors, buffers), "bind");
  api->plan_destroy(plan);
  api->config_destroy(config);
  return optimizer;
}

static void print_epoch(Mlp* net, const Digits* digits, int epoch, FILE* csv) {
  int correct;
  const double loss = mlp_evaluate(net, digits->train_count, digits->images, digits->labels, &correct);
  mlp_evaluate(net, digits->test_count, digits->images + (size_t)digits->train_count * kInputs,
               digits->labels + digits->train_count, &correct);
  clear_progress();
  printf("epoch %3d   loss %.6f   test accuracy %.2f %%\n", epoch, loss, 100.0 * correct / digits->test_count);
  if (csv != NULL) fprintf(csv, "%d,%.9g\n", epoch, loss);
}

static void train(const shampoo_api* api, shampoo_optimizer* optimizer, Mlp* net, const Digits* digits,
                  const Options* options, uint64_t* random_state, FILE* csv) {
  const int steps_per_epoch = digits->train_count / kBatch, steps = options->epochs * steps_per_epoch;
  real* const x = allocate(kBatch * kInputs, sizeof(real));
  int labels[kBatch];
  int* const rows = allocate((size_t)digits->train_count, sizeof(int));
  double lr;
  for (int i = 0; i < digits->train_count; ++i) rows[i] = i;
  library_check(api, api->optimizer_get(optimizer, 0, "lr", &lr), "lr");
  print_epoch(net, digits, 0, csv);
  for (int step = 0; step < steps; ++step) {
    const int first = step % steps_per_epoch * kBatch;
    if (first == 0) random_shuffle(random_state, digits->train_count, rows);
    show_progress(step, steps);
    for (int r = 0; r < kBatch; ++r) {
      const int row = rows[first + r];
      memcpy(x + (size_t)r * kInputs, digits->images + (size_t)row * kInputs, kInputs * sizeof(real));
      labels[r] = digits->labels[row];
    }
    const double share = 0.5 * (1 + cos(3.14159265358979323846 * step / steps));
    library_check(api, api->optimizer_set(optimizer, 0, "lr", share * lr), "lr");
    mlp_gradient(net, kBatch, x, labels);
    library_check(api, api->optimizer_step(optimizer, NULL), "step");
    if ((step + 1) % steps_per_epoch == 0) print_epoch(net, digits, step / steps_per_epoch + 1, csv);
  }
  free(rows);
  free(x);
}

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  uint64_t random_state = 1;
  Digits digits;
  Mlp net;
  const shampoo_api* const api = library_open(options.library);
  library_check(api, api->set_log(log_message, NULL, 1), "log");
  print_library(api);
  digits_load(&digits, options.data);
  FILE* const csv = options.csv != NULL ? open_file(options.csv, "w") : NULL;
  if (csv != NULL) fputs("epoch,shampoo_train_loss\n", csv);

  mlp_create(&net, kBatch);
  mlp_init(&net, &random_state);
  shampoo_optimizer* const optimizer = make_optimizer(api, &net);
  train(api, optimizer, &net, &digits, &options, &random_state, csv);

  api->optimizer_destroy(optimizer);
  mlp_free(&net);
  digits_free(&digits);
  if (csv != NULL) close_file(csv, options.csv);
  return 0;
}
