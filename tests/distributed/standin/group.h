// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Executes the calls of a thread immediately or, after ncclGroupStart, defers them until ncclGroupEnd.
#pragma once

#include "comm.h"

namespace standin {

// Returns whether this thread is between ncclGroupStart and ncclGroupEnd.
bool InGroup();

// Returns `error`, with which a call is rejected. If the call is in a group, ncclGroupEnd then returns the first error
// of the group and executes no call.
ncclResult_t Refuse(ncclResult_t error);

// Executes a request on the communicator of a rank or, in a group, defers the request until ncclGroupEnd.
ncclResult_t Submit(ncclComm_t comm, const Request& request);

}  // namespace standin
