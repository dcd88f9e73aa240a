// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Output of a run: a table while it trains, and the curves as CSV at the end.
#ifndef C_MLP_REPORT_H
#define C_MLP_REPORT_H

enum { kShampoo, kAdamW, kContenders };
extern const char* const report_names[kContenders];

// Results of one optimizer. The arrays have an entry for the start and one for each epoch.
typedef struct {
  double* loss;             // [epochs + 1], mean cross entropy of all training images
  double* accuracy;         // [epochs + 1], share of the test images that are classified correctly
  double gradient_seconds;  // all forward and backward passes
  double update_seconds;    // all steps of the optimizer
} Curve;

// Print the head of the table, and the row of an epoch.
void report_head(void);
void report_epoch(int epoch, const Curve curves[kContenders]);

// Prints the mean times of a step.
void report_times(int steps, const Curve curves[kContenders]);

// Writes a row for each epoch.
void report_csv(const char* path, int epochs, const Curve curves[kContenders]);

#endif
