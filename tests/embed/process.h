// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_PROCESS_H
#define SHAMPOO_TESTS_EMBED_PROCESS_H

// Threads of this process, as the kernel counts them.
int thread_count(void);

// Ends the program unless there are so many threads within ten seconds: one that was joined leaves the kernel's list a
// little later. ThreadSanitizer has threads of its own that come and go: with it nothing is looked at.
void require_thread_count(int wanted, const char* when);

#endif
