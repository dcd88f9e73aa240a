// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include "check.h"
#include "progress.h"

void report_begin(Report* report, const char* csv_path, double target_loss) {
  report->csv = csv_path != NULL ? open_file(csv_path, "w") : NULL;
  report->csv_path = csv_path;
  report->target_loss = target_loss;
  report->at_target.step = -1;
  if (report->csv != NULL) fputs("step,gradient_seconds,update_seconds,train_loss,test_accuracy\n", report->csv);
  printf("\n step   training loss   test accuracy\n");
}

void report_evaluation(Report* report, const Evaluation* evaluation) {
  report->last = *evaluation;
  if (report->at_target.step < 0 && evaluation->loss <= report->target_loss) report->at_target = *evaluation;
  clear_progress();
  printf("%5d   %13.6f   %11.2f %%\n", evaluation->step, evaluation->loss, 100 * evaluation->accuracy);
  fflush(stdout);
  if (report->csv == NULL) return;
  fprintf(report->csv, "%d,%.6f,%.6f,%.17g,%.17g\n", evaluation->step, evaluation->gradient_seconds,
          evaluation->update_seconds, evaluation->loss, evaluation->accuracy);
}

void report_end(Report* report) {
  const Evaluation *last = &report->last, *at = &report->at_target;
  if (last->step > 0) {
    printf("\ntime of a step   gradient %.3f ms, optimizer %.3f ms\n", 1e3 * last->gradient_seconds / last->step,
           1e3 * last->update_seconds / last->step);
  }
  if (at->step >= 0) {
    printf("training loss %g reached after %d steps: gradients %.3f s, optimizer %.3f s\n", report->target_loss,
           at->step, at->gradient_seconds, at->update_seconds);
  } else {
    printf("training loss %g not reached\n", report->target_loss);
  }
  if (report->csv != NULL) close_file(report->csv, report->csv_path);
}
