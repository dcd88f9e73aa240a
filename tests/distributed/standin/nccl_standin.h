// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions with which tests control the stand-in for NCCL. NCCL itself does not have these functions.
#pragma once

#include <nccl.h>

extern "C" {

// Makes one rank's communicator non-blocking, as ncclConfig_t.blocking = 0 does in NCCL. Later collectives, ncclSend,
// ncclRecv and ncclCommSplit return ncclInProgress and complete in the background. The new communicator of a split
// exists when ncclCommGetAsyncError stores ncclSuccess in *asyncError. Between ncclGroupStart
// and ncclGroupEnd, only ncclSend and ncclRecv are accepted, and ncclGroupEnd returns ncclInProgress.
void ncclStandinSetNonBlocking(ncclComm_t comm);

// Breaks one rank's communicator: later collectives, ncclSend, ncclRecv and ncclCommGetAsyncError return `error`. As
// with NCCL, other ranks that wait for this rank continue to wait. A call of ncclCommAbort on any rank ends all waits.
void ncclStandinBreak(ncclComm_t comm, ncclResult_t error);

}  // extern "C"
