// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chart.h"
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

// The largest of 1, 2, 5 times a power of ten that is at most `value`.
static double round_down(double value) {
  const double decade = pow(10, floor(log10(value))), digit = value / decade;
  return decade * (digit >= 5 ? 5 : digit >= 2 ? 2 : 1);
}

void report_svg(const char* path, int epochs, int steps, const char* settings, const Curve curves[kContenders]) {
  Chart chart = {
      .title = "Handwritten digits, 8x8: a 64-128-64-10 network",
      .x_title = "epoch",
      .points = epochs + 1,
      .panels = {
          {.title = "Training loss (mean cross entropy)", .logarithmic = 1, .format = "%g", .final_format = "%#.2g"},
          {.title = "Test accuracy in %", .y_max = 100, .y_step = 1, .format = "%.0f", .final_format = "%.2f"}}};
  double least_loss = INFINITY, largest_loss = 0, least_accuracy = 100, last_accuracy = 100;
  double* percent[kContenders];
  char times[160];

  for (int c = 0; c < kContenders; ++c) {
    percent[c] = allocate((size_t)epochs + 1, sizeof(double));
    for (int e = 0; e <= epochs; ++e) {
      least_loss = fmin(least_loss, curves[c].loss[e]);
      largest_loss = fmax(largest_loss, curves[c].loss[e]);
      percent[c][e] = 100 * curves[c].accuracy[e];
      if (e > 0) least_accuracy = fmin(least_accuracy, percent[c][e]);
    }
    last_accuracy = fmin(last_accuracy, percent[c][epochs]);
    chart.curve_names[c] = report_names[c];
    chart.panels[0].y[c] = curves[c].loss;
    chart.panels[1].y[c] = percent[c];
  }
  chart.panels[0].y_min = round_down(fmax(0.8 * least_loss, 1e-9));
  chart.panels[0].y_max = fmax(5, largest_loss);
  // The first epochs may leave the frame at the bottom: what counts is where the curves end.
  chart.panels[1].y_min = floor(fmax(least_accuracy, last_accuracy - 7));
  if (100 - chart.panels[1].y_min > 12) chart.panels[1].y_step = 5 * ceil((100 - chart.panels[1].y_min) / 50);

  chart.notes[0] = settings;
  chart.notes[1] = times;
  snprintf(times, sizeof times, "mean time of a step, gradient and update: Shampoo %.2f ms, AdamW %.2f ms",
           1e3 * (curves[kShampoo].gradient_seconds + curves[kShampoo].update_seconds) / steps,
           1e3 * (curves[kAdamW].gradient_seconds + curves[kAdamW].update_seconds) / steps);
  chart_write(&chart, path);
  for (int c = 0; c < kContenders; ++c) free(percent[c]);
}
