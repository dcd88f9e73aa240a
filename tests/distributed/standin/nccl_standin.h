// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions of the stand-in for tests, in addition to the interface of NCCL.
#pragma once

#include <nccl.h>

extern "C" {

// Makes later collectives and messages of this rank return ncclInProgress and complete in the background, as on a
// communicator with ncclConfig_t.blocking = 0. A split must be complete before the next call. In a group such a
// communicator accepts only messages, and ncclGroupEnd returns ncclInProgress.
void ncclStandinSetNonBlocking(ncclComm_t comm);

// Breaks the communicator of this rank: collectives, messages and ncclCommGetAsyncError return the error. Peers that
// wait for this rank keep waiting until an abort, as with NCCL.
void ncclStandinBreak(ncclComm_t comm, ncclResult_t error);

}  // extern "C"
