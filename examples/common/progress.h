// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A progress line on stdout, which is shown only if stdout is a terminal.
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

// Returns 1 if stdout is a terminal, otherwise 0.
int on_terminal(void);
// Removes the progress line so that something else can be printed in its place.
void clear_progress(void);
void show_progress(int step, int steps);

#endif
