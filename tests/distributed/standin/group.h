// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Calls of one thread, executed immediately or deferred until ncclGroupEnd.
#pragma once

#include "comm.h"

namespace standin {

// Returns whether this thread is between ncclGroupStart and ncclGroupEnd.
bool InGroup();

// Returns `error`. In a group, ncclGroupEnd then returns the first such error and does not execute the group.
ncclResult_t Refuse(ncclResult_t error);

// Executes the request on this rank's communicator, or defers it to the end of the group.
ncclResult_t Submit(ncclComm_t comm, const Request& request);

}  // namespace standin
