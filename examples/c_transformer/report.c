// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "progress.h"

static const Point* newest(const Contender* contender) { return &contender->points[contender->point_count - 1]; }

static double characters(const Training* training) {
  return (double)training->options->batch * training->model->context;
}

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

// Returns the median time of steps [first, end). If `whole` is 0, the time of the gradient is left out.
static double median_seconds(const Contender* contender, int first, int end, int whole) {
  const int count = end - first;
  double* sorted = allocate((size_t)count, sizeof(double));
  for (int s = 0; s < count; ++s) {
    sorted[s] = contender->update_seconds[first + s] + (whole ? contender->gradient_seconds[first + s] : 0);
  }
  qsort(sorted, (size_t)count, sizeof(double), compare_doubles);
  const double median = 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]);
  free(sorted);
  return median;
}

void report_head(const Training* training) {
  if (training->count == 1) {
    printf("\n step   training  validation   characters/s   optimizer   whole step\n");
    return;
  }
  printf("\nvalidation loss\n step");
  for (int c = 0; c < training->count; ++c) printf("  %18s", training->contenders[c].name);
  printf("\n");
}

void report_evaluation(const Training* training) {
  const Contender* first = &training->contenders[0];
  const Point* point = newest(first);
  clear_progress();
  printf("%5d", training->step);
  if (training->count > 1) {
    for (int c = 0; c < training->count; ++c) printf("  %18.4f", newest(&training->contenders[c])->validation_loss);
  } else if (training->step == 0) {
    printf("  %9s  %10.4f", "", point->validation_loss);
  } else {
    const double whole = median_seconds(first, point[-1].step, point->step, 1);
    printf("  %9.4f  %10.4f  %13.0f  %7.2f ms  %8.2f ms", point->train_loss, point->validation_loss,
           characters(training) / whole, 1e3 * median_seconds(first, point[-1].step, point->step, 0), 1e3 * whole);
  }
  printf("\n");
  fflush(stdout);
}

void report_progress(const Training* training) {
  const int step = training->step, steps = training->options->steps;
  double update = 0, whole = 0;
  if (!on_terminal()) return;
  printf("\r\033[Kstep %d of %d, loss", step, steps);
  for (int c = 0; c < training->count; ++c) {
    const Contender* contender = &training->contenders[c];
    update += contender->update_seconds[step - 1];
    whole += contender->gradient_seconds[step - 1] + contender->update_seconds[step - 1];
    printf(" %.3f", contender->losses[step - 1]);
  }
  printf(", %.0f characters/s, optimizer %.1f of %.1f ms", characters(training) * training->count / whole, 1e3 * update,
         1e3 * whole);
  fflush(stdout);
}

// Computes after how many steps and seconds a contender first reached a validation loss, by linear interpolation
// between evaluations. Returns 0 if the contender never reached this loss.
static int when_reached(const Contender* contender, double loss, double* steps, double* seconds) {
  for (int i = 1; i < contender->point_count; ++i) {
    const Point *p = &contender->points[i - 1], *q = &contender->points[i];
    if (!(q->validation_loss <= loss)) continue;
    const double part = (p->validation_loss - loss) / (p->validation_loss - q->validation_loss);
    *steps = p->step + part * (q->step - p->step);
    *seconds = p->seconds + part * (q->seconds - p->seconds);
    return 1;
  }
  return 0;
}

static void report_comparison(const Training* training) {
  const Point* baseline = newest(&training->contenders[0]);
  printf("\n%17s  time over %s  to %s's last loss\n", "", training->contenders[0].name, training->contenders[0].name);
  for (int c = 0; c < training->count; ++c) {
    const Contender* contender = &training->contenders[c];
    double steps = baseline->step, seconds = baseline->seconds;
    printf("%-22s  %+8.1f %%", contender->name, 100 * (newest(contender)->seconds / baseline->seconds - 1));
    if (c == 0 || when_reached(contender, baseline->validation_loss, &steps, &seconds)) {
      printf("  %5.0f steps  %7.1f s\n", steps, seconds);
    } else {
      printf("  never\n");
    }
  }
}

void report_results(const Training* training) {
  const int steps = training->options->steps;
  printf("\n%-22s  step, median      mean   optimizer, median      mean    share  validation loss\n", "");
  for (int c = 0; c < training->count; ++c) {
    const Contender* contender = &training->contenders[c];
    double update = 0;
    for (int s = 0; s < steps; ++s) update += contender->update_seconds[s];
    const double whole = newest(contender)->seconds;
    printf("%-22s  %9.2f ms %9.2f ms  %14.2f ms %9.2f ms  %5.1f %%  %15.4f\n", contender->name,
           1e3 * median_seconds(contender, 0, steps, 1), 1e3 * whole / steps,
           1e3 * median_seconds(contender, 0, steps, 0), 1e3 * update / steps, 100 * update / whole,
           newest(contender)->validation_loss);
  }
  if (training->options->what == kCompare || training->options->what == kCompareFrequencies)
    report_comparison(training);
}

void report_csv(const char* path, const Training* training) {
  FILE* csv = open_file(path, "w");
  fprintf(csv, "run,learning_rate,step,seconds,training_loss,validation_loss\n");
  for (int c = 0; c < training->count; ++c) {
    const Contender* contender = &training->contenders[c];
    for (int i = 0; i < contender->point_count; ++i) {
      const Point* point = &contender->points[i];
      fprintf(csv, "%s,%g,%d,%.6f,", contender->name, contender->lr, point->step, point->seconds);
      if (i > 0) fprintf(csv, "%.9g", point->train_loss);
      fprintf(csv, ",%.9g\n", point->validation_loss);
    }
  }
  close_file(csv, path);
}
