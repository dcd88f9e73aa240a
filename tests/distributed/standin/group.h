// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Executes the NCCL calls of a thread immediately or, after ncclGroupStart, defers them until ncclGroupEnd.
#pragma once

#include "comm.h"

namespace standin {

// Returns whether this thread is between ncclGroupStart and ncclGroupEnd.
bool InGroup();

// Rejects a call: returns `error`. If the call is in a group, ncclGroupEnd later returns the first error of the group
// and executes no call of the group.
ncclResult_t Refuse(ncclResult_t error);

// Executes a request on the communicator of a rank or, in a group, defers the request until ncclGroupEnd.
ncclResult_t Submit(ncclComm_t comm, const Request& request);

}  // namespace standin
