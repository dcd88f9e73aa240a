// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Output of a run: a table and a CSV file during the training, and a summary at the end.
#ifndef C_CONV_REPORT_H
#define C_CONV_REPORT_H

#include <stdio.h>

// Results of an evaluation of the network, and the time that the training took before it.
typedef struct {
  int step;                 // number of steps before the evaluation
  double gradient_seconds;  // time of all forward and backward passes so far
  double update_seconds;    // time of all steps of the optimizer so far
  double loss;              // mean cross entropy of all training images
  double accuracy;          // share of the test images that are classified correctly
} Evaluation;

typedef struct {
  FILE* csv;  // NULL if no CSV file is written
  const char* csv_path;
  double target_loss;
  Evaluation last;
  Evaluation at_target;  // first evaluation with a loss of at most target_loss; if there is none, at_target.step is -1
} Report;

// report_begin() prints the head of the table, and report_evaluation() prints the row of an evaluation. If csv_path is
// not NULL, both also write to the CSV file.
void report_begin(Report* report, const char* csv_path, double target_loss);
void report_evaluation(Report* report, const Evaluation* evaluation);

// Prints the summary and closes the CSV file.
void report_end(Report* report);

#endif
