// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <stdio.h>

#include "check.h"
#include "progress.h"

const char* const report_names[kContenders] = {"Shampoo", "AdamW"};

void report_head(void) {
  printf("\n         training loss         test accuracy\n");
  printf("epoch    Shampoo     AdamW    Shampoo     AdamW\n");
}

void report_epoch(int epoch, const Curve curves[kContenders]) {
  clear_progress();
  printf("%5d  %9.5f %9.5f  %7.2f %% %7.2f %%\n", epoch, curves[kShampoo].loss[epoch], curves[kAdamW].loss[epoch],
         100 * curves[kShampoo].accuracy[epoch], 100 * curves[kAdamW].accuracy[epoch]);
  fflush(stdout);
}

void report_times(int steps, const Curve curves[kContenders]) {
  printf("\nmean time of a step    gradient   optimizer       whole\n");
  for (int c = 0; c < kContenders; ++c) {
    const double gradient = 1e3 * curves[c].gradient_seconds / steps, update = 1e3 * curves[c].update_seconds / steps;
    printf("%-19s %8.3f ms %8.3f ms %8.3f ms\n", report_names[c], gradient, update, gradient + update);
  }
}

void report_csv(const char* path, int epochs, const Curve curves[kContenders]) {
  FILE* csv = open_file(path, "w");
  fprintf(csv, "epoch,shampoo_train_loss,adamw_train_loss,shampoo_test_accuracy,adamw_test_accuracy\n");
  for (int e = 0; e <= epochs; ++e) {
    fprintf(csv, "%d,%.9g,%.9g,%.9g,%.9g\n", e, curves[kShampoo].loss[e], curves[kAdamW].loss[e],
            curves[kShampoo].accuracy[e], curves[kAdamW].accuracy[e]);
  }
  close_file(csv, path);
}
