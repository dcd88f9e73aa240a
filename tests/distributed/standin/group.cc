// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "group.h"

#include <algorithm>
#include <utility>

namespace standin {
namespace {

// Requests that are posted together on one communicator: a collective, or consecutive messages (sends and receives) of
// a group of calls (ncclGroupStart).
struct RequestBatch {
  RequestBatch(ncclComm_t to, const Request& request)
      : comm(to), meeting(to->meeting), rank(to->rank), non_blocking(to->non_blocking), requests{request} {}

  ncclResult_t Post() const { return meeting->Post(rank, requests); }
  ncclResult_t Wait() const { return non_blocking ? ncclInProgress : meeting->Wait(rank); }

  ncclComm_t comm;
  // A shared_ptr, because another thread may abort and free the communicator while this thread waits.
  std::shared_ptr<Meeting> meeting;
  int rank;
  bool non_blocking;
  std::vector<Request> requests;
};

// State of this thread: nesting depth of groups, deferred requests, and the error of the first rejected call in the
// group.
thread_local int depth = 0;
thread_local std::vector<RequestBatch> deferred;
thread_local ncclResult_t refused = ncclSuccess;

bool Failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

// Returns `a` if it is an error, otherwise `b` if that is an error. If neither is an error, returns ncclInProgress if
// one of the two is ncclInProgress, otherwise ncclSuccess.
ncclResult_t First(ncclResult_t a, ncclResult_t b) { return Failed(a) || b == ncclSuccess ? a : b; }

void Defer(ncclComm_t comm, const Request& request) {
  const auto last =
      std::find_if(deferred.rbegin(), deferred.rend(), [&](const RequestBatch& batch) { return batch.comm == comm; });
  if (IsMessage(request) && last != deferred.rend() && IsMessage(last->requests[0])) {
    last->requests.push_back(request);
  } else {
    deferred.emplace_back(comm, request);
  }
}

// Posts the first batch of each communicator, then waits until these batches are complete (except on non-blocking
// communicators) and removes them from `batches`. Posts all of these batches before it waits, because some of them
// complete only after other ranks have posted batches.
ncclResult_t RunRound(std::vector<RequestBatch>& batches) {
  std::vector<RequestBatch> round, rest;
  for (const RequestBatch& batch : batches) {
    const bool taken =
        std::any_of(round.begin(), round.end(), [&](const RequestBatch& r) { return r.comm == batch.comm; });
    (taken ? rest : round).push_back(batch);
  }
  ncclResult_t result = ncclSuccess;
  for (const RequestBatch& batch : round) result = First(result, batch.Post());
  if (result != ncclSuccess) return result;
  for (const RequestBatch& batch : round) result = First(result, batch.Wait());
  batches = rest;
  return result;
}

}  // namespace

bool InGroup() { return depth > 0; }

ncclResult_t Refuse(ncclResult_t error) {
  if (InGroup() && refused == ncclSuccess) refused = error;
  return error;
}

ncclResult_t Submit(ncclComm_t comm, const Request& request) {
  if (const ncclResult_t broken = comm->broken; broken != ncclSuccess) return Refuse(broken);
  if (InGroup()) {
    if (request.kind == Request::kSplit) return Refuse(ncclInvalidUsage);
    if (comm->non_blocking && !IsMessage(request)) return Refuse(ncclInvalidUsage);
    Defer(comm, request);
    return ncclSuccess;
  }
  const RequestBatch batch(comm, request);
  const ncclResult_t posted = batch.Post();
  return posted != ncclSuccess ? posted : batch.Wait();
}

}  // namespace standin

ncclResult_t ncclGroupStart() {
  ++standin::depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (standin::depth == 0) return ncclInvalidUsage;
  if (--standin::depth > 0) return ncclSuccess;
  std::vector<standin::RequestBatch> batches;
  batches.swap(standin::deferred);
  ncclResult_t result = std::exchange(standin::refused, ncclSuccess);
  while (!batches.empty() && !standin::Failed(result)) result = standin::First(result, standin::RunRound(batches));
  return result;
}
