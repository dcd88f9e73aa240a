// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Prints a table during the training. After the training, prints times and comparisons, and writes the curves as CSV. A
// contender is an optimizer with its own copy of the parameters (see train.h).
#ifndef C_TRANSFORMER_REPORT_H
#define C_TRANSFORMER_REPORT_H

#include "train.h"

void report_head(const Training* training);
// Prints a row of the table, with the newest evaluation of each contender.
void report_evaluation(const Training* training);

// Shows the progress line on a terminal. The next row of the table replaces this line.
void report_progress(const Training* training);

// Prints step times and final losses. With --compare or --compare-frequencies, also prints the total time of each
// contender relative to the first contender, and when each contender reached the final loss of the first contender.
void report_results(const Training* training);

void report_csv(const char* path, const Training* training);

#endif
