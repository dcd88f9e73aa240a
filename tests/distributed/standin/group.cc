// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "group.h"

#include <algorithm>

namespace standin {
namespace {

struct Put {
  ncclComm_t comm;
  Request request;
};

// Of this thread: how deep it is in groups, and what they have put off.
thread_local int depth = 0;
thread_local std::vector<Put> put_off;

ncclResult_t First(ncclResult_t a, ncclResult_t b) { return a != ncclSuccess ? a : b; }

// One request of each communicator at a time: all are left before the first is waited for, since ranks that this thread
// manages wait for each other.
ncclResult_t RunRound(std::vector<Put>& puts) {
  std::vector<Put> round, rest;
  for (const Put& put : puts) {
    const bool taken = std::any_of(round.begin(), round.end(), [&](const Put& r) { return r.comm == put.comm; });
    (taken ? rest : round).push_back(put);
  }
  ncclResult_t result = ncclSuccess;
  for (const Put& put : round) result = First(result, put.comm->meeting->Post(put.comm->rank, put.request));
  if (result != ncclSuccess) return result;
  for (const Put& put : round) result = First(result, put.comm->meeting->Wait(put.comm->rank));
  puts = rest;
  return result;
}

}  // namespace

bool InGroup() { return depth > 0; }

ncclResult_t Submit(ncclComm_t comm, const Request& request) {
  if (const ncclResult_t broken = comm->broken; broken != ncclSuccess) return broken;
  if (InGroup()) {
    if (comm->non_blocking || request.kind == Request::kSplit) return ncclInvalidUsage;
    put_off.push_back({comm, request});
    return ncclSuccess;
  }
  // Held here: another thread may abort, and so free, the communicator while this one waits.
  const std::shared_ptr<Meeting> meeting = comm->meeting;
  const int rank = comm->rank;
  const bool non_blocking = comm->non_blocking;
  const ncclResult_t posted = meeting->Post(rank, request);
  if (posted != ncclSuccess) return posted;
  return non_blocking ? ncclInProgress : meeting->Wait(rank);
}

}  // namespace standin

ncclResult_t ncclGroupStart() {
  ++standin::depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (standin::depth == 0) return ncclInvalidUsage;
  if (--standin::depth > 0) return ncclSuccess;
  std::vector<standin::Put> puts;
  puts.swap(standin::put_off);
  ncclResult_t result = ncclSuccess;
  while (!puts.empty() && result == ncclSuccess) result = standin::RunRound(puts);
  return result;
}
