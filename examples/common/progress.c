// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#define _POSIX_C_SOURCE 200809L  // isatty, fileno
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

int on_terminal(void) { return isatty(fileno(stdout)); }

void clear_progress(void) {
  if (!on_terminal()) return;
  fputs("\r\033[K", stdout);
  fflush(stdout);  // the line must be gone before anything is printed to stderr
}

void show_progress(int step, int steps) {
  enum { kBar = 40 };
  char bar[kBar + 1];
  if (!on_terminal()) return;
  for (int i = 0; i < kBar; ++i) bar[i] = i < (int)((double)step / steps * kBar) ? '#' : '.';
  bar[kBar] = '\0';
  printf("\r\033[K%s step %d of %d", bar, step, steps);
  fflush(stdout);
}
