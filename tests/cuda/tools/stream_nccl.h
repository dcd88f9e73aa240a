// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Controls the fake of NCCL in stream_nccl.cc.
#pragma once

#include <nccl.h>

extern "C" {

// Makes the communicator non-blocking, as ncclConfig_t.blocking = 0 does: its collectives return ncclInProgress and do
// not enqueue their work. For each collective, the first call of ncclCommGetAsyncError() reports ncclInProgress, and
// the second call enqueues the work.
void stream_nccl_set_non_blocking(ncclComm_t comm);

// Returns the number of groups that have ended since the start of the process. A group consists of the calls between
// ncclGroupStart() and ncclGroupEnd(). Groups without a call of ncclSend() or ncclRecv() are not counted.
int stream_nccl_groups(void);

}  // extern "C"
