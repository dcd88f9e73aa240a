// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/comm/communicator.h"

namespace shampoo {

// Checks of numbers from other ranks, before they are used as sizes, indices or codes. A number out of range means that
// a rank runs another build, or that the communicator mixes up ranks or calls.

// The last part of error messages about invalid data from other ranks.
inline constexpr char kCheckRanks[] =
    ". Check that all ranks run the same build of libshampoo, and that the communicator puts the data of each rank at "
    "the position of that rank in the receive buffer";

// A number that a rank sent.
struct Received {
  const char* what;  // how errors name the number
  int rank;
  int64_t number;
};

// Returns an error with code kComm if the number is not in [least, most]. Callers must agree on their status with the
// other ranks afterwards.
Status CheckReceived(const Communicator& comm, const Received& received, int64_t least, int64_t most);

// Makes the same check for callers that do not agree on their status with other ranks. An error aborts the
// communicator, like the failure of a collective.
Status CheckReceivedOrAbort(Communicator* comm, const Received& received, int64_t least, int64_t most);
// Checks, like CheckReceivedOrAbort(), that a number is a Code (see status.h).
Status CheckCodeOrAbort(Communicator* comm, int rank, int64_t number);
// Checks, like CheckReceivedOrAbort(), that a number is from TakeOptimizerId() of the communicator.
Status CheckOptimizerIdOrAbort(Communicator* comm, int rank, int64_t number);

}  // namespace shampoo
