/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Checks that shampoo_nccl.h compiles with NCCL 2.14, the oldest version that this header supports. NCCL 2.14 has no
 * ncclCommSplit, so the header must not use this function with that version.
 */
#include <nccl.h>

#undef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE 21400
#pragma GCC poison ncclCommSplit
#include <shampoo/shampoo_nccl.h>

int main(void) { return 0; }
