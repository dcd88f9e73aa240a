// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#ifndef SHAMPOO_TESTS_EMBED_PROCESS_H
#define SHAMPOO_TESTS_EMBED_PROCESS_H

// Returns the number of threads of this process according to the kernel.
int thread_count(void);

// Waits until this process has `wanted` threads. If the number still differs after ten seconds, ends the program with
// an error that contains `when`. The wait is needed because the kernel removes a thread from its list shortly after the
// thread was joined. Does nothing with ThreadSanitizer, which starts its own threads.
void require_thread_count(int wanted, const char* when);

#endif
