// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Controls the fake of NCCL in stream_nccl.cc.
#pragma once

#include <nccl.h>

extern "C" {

// Makes later calls with the communicator return ncclInProgress, as with ncclConfig_t.blocking = 0. The first call of
// ncclCommGetAsyncError() then also reports ncclInProgress, and the second one enqueues the work.
void stream_nccl_set_non_blocking(ncclComm_t comm);

// Returns how many groups (ncclGroupStart() to ncclGroupEnd()) with calls of ncclSend() or ncclRecv() have ended since
// the start of the process.
int stream_nccl_groups(void);

}  // extern "C"
