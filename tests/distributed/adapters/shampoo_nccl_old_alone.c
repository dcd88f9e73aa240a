/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Compiled with the header of NCCL 2.6, which has no ncclSend and ncclRecv.
 */
#include <nccl.h>

#undef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE 2604
#pragma GCC poison ncclSend ncclRecv ncclCommSplit
#include <shampoo/shampoo_nccl.h>

int main(void) { return 0; }
