// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The progress line, shown on a terminal only.
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

int on_terminal(void);
// Removes the line so that something else can be printed in its place.
void clear_progress(void);
void show_progress(int step, int steps);

#endif
