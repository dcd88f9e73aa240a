// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Output of a run: a table during the training, and the curves as CSV at the end.
#ifndef C_MLP_REPORT_H
#define C_MLP_REPORT_H

// The optimizers that a run compares. kContenders is their number.
enum { kShampoo, kAdamW, kContenders };
extern const char* const report_names[kContenders];

// Results of one optimizer. Each array has an entry for the start of the training and an entry for each epoch.
typedef struct {
  double* loss;             // [epochs + 1], mean cross entropy of all training images
  double* accuracy;         // [epochs + 1], share of the test images that are classified correctly
  double gradient_seconds;  // time of all forward and backward passes
  double update_seconds;    // time of all steps of the optimizer
} Curve;

// report_head() prints the head of the table, and report_epoch() prints the row of an epoch.
void report_head(void);
void report_epoch(int epoch, const Curve curves[kContenders]);

// Prints the mean times of a gradient and of an update, for each optimizer. steps: the number of steps of each
// optimizer.
void report_times(int steps, const Curve curves[kContenders]);

// Writes a CSV file with a row for the start and a row for each epoch.
void report_csv(const char* path, int epochs, const Curve curves[kContenders]);

#endif
