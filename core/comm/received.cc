// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/comm/received.h"

namespace shampoo {

Status CheckReceived(const Communicator& comm, const Received& received, int64_t least, int64_t most) {
  if (received.number >= least && received.number <= most) return {};
  const char* const who = comm.rank_name();
  return CommFailed(who, " ", comm.rank(), " received an invalid ", received.what, " from ", who, " ", received.rank,
                    ": ", received.number, "; expected ", least, " to ", most, kCheckRanks);
}

Status CheckReceivedOrAbort(Communicator* comm, const Received& received, int64_t least, int64_t most) {
  Status status = CheckReceived(*comm, received, least, most);
  if (!status.ok()) comm->Abort(status);
  return status;
}

Status CheckCodeOrAbort(Communicator* comm, int rank, int64_t number) {
  return CheckReceivedOrAbort(comm, {"status code", rank, number}, static_cast<int64_t>(Code::kOk),
                              static_cast<int64_t>(Code::kInternal));
}

Status CheckOptimizerIdOrAbort(Communicator* comm, int rank, int64_t number) {
  return CheckReceivedOrAbort(comm, {"optimizer number", rank, number}, 0, comm->optimizer_ids_taken() - 1);
}

}  // namespace shampoo
