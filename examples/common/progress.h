// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The line that shows how far a training is, where someone looks on.
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

int on_terminal(void);
// Takes the line away, so that something else can be printed in its place.
void clear_progress(void);
void show_progress(int step, int steps);

#endif
