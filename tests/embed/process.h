// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_PROCESS_H
#define SHAMPOO_TESTS_EMBED_PROCESS_H

// Returns the number of threads of this process according to the kernel.
int thread_count(void);

// Ends the program unless there are `wanted` threads within ten seconds. It waits because a joined thread disappears
// from the kernel's list a little later. Does nothing with ThreadSanitizer, which has its own threads.
void require_thread_count(int wanted, const char* when);

#endif
