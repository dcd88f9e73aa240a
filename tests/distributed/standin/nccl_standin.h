// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions with which tests control the stand-in for NCCL. NCCL itself does not have these functions.
#pragma once

#include <nccl.h>

extern "C" {

// Makes one rank's communicator non-blocking, as ncclConfig_t.blocking = 0 does in NCCL: later collectives and messages
// return ncclInProgress and complete in the background. The caller must wait for the end of a split before the next
// call. In a group, a non-blocking communicator accepts only messages, and ncclGroupEnd returns ncclInProgress.
void ncclStandinSetNonBlocking(ncclComm_t comm);

// Breaks one rank's communicator: its collectives, its messages and ncclCommGetAsyncError return `error`. As with NCCL,
// other ranks that wait for this rank continue to wait until a rank calls ncclCommAbort.
void ncclStandinBreak(ncclComm_t comm, ncclResult_t error);

}  // extern "C"
