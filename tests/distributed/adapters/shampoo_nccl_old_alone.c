/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Compiled with the version number of NCCL 2.14, the oldest that is supported. It has no ncclCommSplit.
 */
#include <nccl.h>

#undef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE 21400
#pragma GCC poison ncclCommSplit
#include <shampoo/shampoo_nccl.h>

int main(void) { return 0; }
