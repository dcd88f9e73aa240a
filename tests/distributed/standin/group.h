// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Calls of one thread, executed at once or deferred until ncclGroupEnd.
#pragma once

#include "comm.h"

namespace standin {

// Returns whether this thread is between ncclGroupStart and ncclGroupEnd.
bool InGroup();

// Returns the error. In a group it is also the error of the group, which is then not executed.
ncclResult_t Refuse(ncclResult_t error);

// Executes the request on this rank's communicator, or defers it to the end of the group.
ncclResult_t Submit(ncclComm_t comm, const Request& request);

}  // namespace standin
