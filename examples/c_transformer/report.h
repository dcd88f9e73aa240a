// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Output of a run: a table while it trains, then times, comparisons, and the curves as CSV.
#ifndef C_TRANSFORMER_REPORT_H
#define C_TRANSFORMER_REPORT_H

#include "train.h"

// The head of the table, and a row of it: the newest look at the contenders.
void report_head(const Training* training);
void report_look(const Training* training);

// Shows how far the run is, in place, on a terminal; does nothing otherwise. The next row of the table covers it.
void report_progress(const Training* training);

// Times of a step and losses of every contender. In a comparison the first contender is what the others are measured
// by.
void report_results(const Training* training);

void report_csv(const char* path, const Training* training);

#endif
