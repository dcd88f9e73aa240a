// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Calls of one thread: at once, or put off until ncclGroupEnd.
#pragma once

#include "comm.h"

namespace standin {

// Whether this thread is between ncclGroupStart and ncclGroupEnd.
bool InGroup();

// Gives the error back; in a group it is that of the group, too, of which nothing is carried out then.
ncclResult_t Refuse(ncclResult_t error);

// Carries out the request on this rank's communicator, or leaves it to the group.
ncclResult_t Submit(ncclComm_t comm, const Request& request);

}  // namespace standin
