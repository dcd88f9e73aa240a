// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Output of a run: a table and a CSV file during the training, and a summary at the end.
#ifndef C_CONV_REPORT_H
#define C_CONV_REPORT_H

#include <stdio.h>

// An evaluation of the network.
typedef struct {
  int step;                 // steps made
  double gradient_seconds;  // all forward and backward passes so far
  double update_seconds;    // all steps of the optimizer so far
  double loss;              // mean cross entropy of all training images
  double accuracy;          // share of the test images that are classified correctly
} Evaluation;

typedef struct {
  FILE* csv;  // NULL: not written
  const char* csv_path;
  double target_loss;
  Evaluation last;
  Evaluation at_target;  // the first evaluation whose loss is at most target_loss; step -1: there is none
} Report;

void report_begin(Report* report, const char* csv_path, double target_loss);
void report_evaluation(Report* report, const Evaluation* evaluation);

// Prints the summary and closes the CSV file.
void report_end(Report* report);

#endif
