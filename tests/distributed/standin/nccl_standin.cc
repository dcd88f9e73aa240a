// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Implements the functions of nccl_standin.h and nccl.h, except ncclGroupStart and ncclGroupEnd (see group.cc).
#include "nccl_standin.h"

#include <cstring>
#include <map>
#include <string>

#include "comm.h"
#include "group.h"

using standin::Meeting;
using standin::Request;

namespace {

// A communicator that is complete when all of its ranks have called ncclCommInitRank with the same ncclUniqueId.
struct Arrival {
  std::shared_ptr<Meeting> meeting;
  std::vector<bool> arrived;
  int missing = 0;
};
std::mutex arrivals_mutex;
std::condition_variable arrivals_changed;
std::map<std::string, std::shared_ptr<Arrival>> arrivals;

ncclResult_t Collective(ncclComm_t comm, const Request& request) {
  if (comm == nullptr) return standin::Refuse(ncclInvalidArgument);
  if (request.count > 0 && (request.send == nullptr || request.recv == nullptr)) {
    return standin::Refuse(ncclInvalidArgument);
  }
  return standin::Submit(comm, request);
}

ncclResult_t Message(ncclComm_t comm, const Request& request) {
  if (comm == nullptr || request.peer < 0 || request.peer >= comm->meeting->world()) {
    return standin::Refuse(ncclInvalidArgument);
  }
  const void* const buffer = request.kind == Request::kSend ? request.send : request.recv;
  if (request.count > 0 && buffer == nullptr) return standin::Refuse(ncclInvalidArgument);
  return standin::Submit(comm, request);
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static const char* const kTexts[ncclNumResults] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process failed",  "operation in progress"};
  return result >= 0 && result < ncclNumResults ? kTexts[result] : "unknown result code";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  static std::atomic<uint64_t> count = 0;
  if (uniqueId == nullptr) return ncclInvalidArgument;
  const uint64_t number = ++count;
  *uniqueId = {};
  std::memcpy(uniqueId->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  if (comm == nullptr || nranks < 1 || rank < 0 || rank >= nranks) return ncclInvalidArgument;
  if (standin::InGroup()) return ncclInvalidUsage;
  const std::string id(commId.internal, sizeof commId.internal);
  std::unique_lock lock(arrivals_mutex);
  std::shared_ptr<Arrival>& found = arrivals[id];
  if (found == nullptr) {
    found = std::make_shared<Arrival>(
        Arrival{std::make_shared<Meeting>(nranks), std::vector<bool>(static_cast<size_t>(nranks)), nranks});
  }
  const std::shared_ptr<Arrival> arrival = found;
  const auto seat = static_cast<size_t>(rank);
  if (arrival->meeting->world() != nranks || arrival->arrived[seat]) return ncclInvalidArgument;
  arrival->arrived[seat] = true;
  if (--arrival->missing == 0) {
    arrivals.erase(id);
    arrivals_changed.notify_all();
  }
  arrivals_changed.wait(lock, [&] { return arrival->missing == 0; });
  *comm = new ncclComm(arrival->meeting, rank);
  return ncclSuccess;
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int*) {
  if (comm == nullptr || ndev < 1) return ncclInvalidArgument;
  const auto meeting = std::make_shared<Meeting>(ndev);
  for (int rank = 0; rank < ndev; ++rank) comm[rank] = new ncclComm(meeting, rank);
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t*) {
  if (comm == nullptr || newcomm == nullptr) return ncclInvalidArgument;
  Request request;
  request.kind = Request::kSplit;
  request.color = color;
  request.key = key;
  request.new_comm = newcomm;
  return standin::Submit(comm, request);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  comm->meeting->Abort();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  if (comm == nullptr || asyncError == nullptr) return ncclInvalidArgument;
  const ncclResult_t broken = comm->broken;
  *asyncError = broken != ncclSuccess ? broken : comm->meeting->Poll(comm->rank);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = comm->meeting->world();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t) {
  return Collective(comm, {Request::kGather, sendbuff, recvbuff, sendcount, datatype});
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t) {
  return Collective(comm, {Request::kReduce, sendbuff, recvbuff, count, datatype, op});
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t) {
  return Collective(comm, {Request::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op});
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t) {
  Request request{Request::kSend, sendbuff, nullptr, count, datatype};
  request.peer = peer;
  return Message(comm, request);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t) {
  Request request{Request::kReceive, nullptr, recvbuff, count, datatype};
  request.peer = peer;
  return Message(comm, request);
}

void ncclStandinSetNonBlocking(ncclComm_t comm) { comm->non_blocking = true; }

void ncclStandinBreak(ncclComm_t comm, ncclResult_t error) { comm->broken = error; }
