// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// What tests may ask of the stand-in beyond NCCL's own interface.
#pragma once

#include <nccl.h>

extern "C" {

// From now on collectives on this rank return ncclInProgress and end by themselves, as those of a communicator that was
// made with ncclConfig_t.blocking = 0. A split that is begun so must be over before the next call. In a group such a
// communicator takes messages alone, and it is the end of the group that returns ncclInProgress.
void ncclStandinSetNonBlocking(ncclComm_t comm);

// From now on the communicator of this rank is broken: collectives, messages and ncclCommGetAsyncError give the error.
// Peers that wait for this rank go on waiting, as NCCL's do, until somebody aborts.
void ncclStandinBreak(ncclComm_t comm, ncclResult_t error);

}  // extern "C"
