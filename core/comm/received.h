// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/status.h"
#include "core/comm/communicator.h"

namespace shampoo {

// Checks of numbers that other ranks send, before they become sizes, indices or codes. Ranks of one build send none
// that is out of range; a rank of another build does, and so does a communicator that mixes up ranks or calls.

// The end of every text about such a number.
inline constexpr char kCheckRanks[] =
    ". Check that all ranks run the same build of libshampoo, and that the communicator delivers what each rank sends "
    "to that rank's place";

// A number that a rank sent.
struct Received {
  const char* what;
  int rank;
  int64_t number;
};

// Fails with kComm unless the number is in [least, most]. For callers who agree on their status afterwards.
Status CheckReceived(const Communicator& comm, const Received& received, int64_t least, int64_t most);

// The same where no agreement follows: this rank takes part in nothing more, as after a collective that failed.
Status RequireReceived(Communicator* comm, const Received& received, int64_t least, int64_t most);
// For a Code.
Status RequireCode(Communicator* comm, int rank, int64_t number);
// For the number of an optimizer among those of the communicator.
Status RequireOptimizer(Communicator* comm, int rank, int64_t number);

}  // namespace shampoo
