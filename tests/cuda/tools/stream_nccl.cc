// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A fake of NCCL whose collectives only enqueue copies in the stream, so that they can be captured into a CUDA graph. A
// communicator has one real rank: a collective acts as if each other rank sent the same data as this rank (see
// stream_comm.h).
#include "tests/cuda/tools/stream_nccl.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "tests/cuda/fake/control.h"

struct ncclComm {
  int world = 0, rank = 0;
  bool non_blocking = false;
  std::function<ncclResult_t()> in_progress;  // if the communicator is non-blocking: work that is not enqueued yet
  bool asked = false;                         // whether ncclCommGetAsyncError() was called for this work
};

namespace {

// A call of ncclSend() or ncclRecv().
struct Message {
  const char* send;  // nullptr: a call of ncclRecv()
  char* recv;
  size_t bytes;
  int peer;
  ncclComm_t comm;
  cudaStream_t stream;
};

int groups = 0;

thread_local bool group_is_open = false;
thread_local std::vector<Message> group_messages;

bool IsUsable(const void* data, size_t bytes) { return bytes == 0 || fake_cuda_check_collective(data, bytes) != 0; }

ncclResult_t Copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  if (bytes == 0 || to == from) return ncclSuccess;
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t Enqueue(ncclComm_t comm, std::function<ncclResult_t()> work) {
  if (!comm->non_blocking) return work();
  comm->in_progress = std::move(work);
  comm->asked = false;
  return ncclInProgress;
}

ncclResult_t Exchange(const std::vector<Message>& messages) {
  for (const Message& receive : messages) {
    if (receive.send != nullptr) continue;
    for (const Message& send : messages) {
      if (send.send == nullptr || send.peer != receive.peer) continue;
      const ncclResult_t result = Copy(receive.recv, send.send, std::min(send.bytes, receive.bytes), receive.stream);
      if (result != ncclSuccess) return result;
    }
  }
  return ncclSuccess;
}

ncclResult_t Submit(const Message& message, ncclDataType_t datatype) {
  if (datatype != ncclUint8 || message.peer < 0 || message.peer >= message.comm->world) return ncclInvalidArgument;
  if (!IsUsable(message.send != nullptr ? message.send : message.recv, message.bytes)) return ncclInvalidArgument;
  if (!group_is_open || message.comm->in_progress) return ncclInvalidUsage;
  group_messages.push_back(message);
  return message.comm->non_blocking ? ncclInProgress : ncclSuccess;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t) { return "an error of the fake of NCCL"; }

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId, int rank) {
  *comm = new ncclComm;
  (*comm)->world = nranks;
  (*comm)->rank = rank;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  *asyncError = ncclSuccess;
  if (!comm->in_progress) return ncclSuccess;
  if (!std::exchange(comm->asked, true)) {
    *asyncError = ncclInProgress;
  } else {
    *asyncError = std::exchange(comm->in_progress, nullptr)();
  }
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->world;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

// shampoo_nccl_split() of shampoo_nccl.h needs this symbol. No test that uses this fake calls shampoo_nccl_split().
ncclResult_t ncclCommSplit(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*) { return ncclInvalidUsage; }

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  const auto ranks = static_cast<size_t>(comm->world);
  if (datatype != ncclUint8 || !IsUsable(sendbuff, sendcount) || !IsUsable(recvbuff, sendcount * ranks)) {
    return ncclInvalidArgument;
  }
  if (group_is_open || comm->in_progress) return ncclInvalidUsage;
  return Enqueue(comm, [=] {
    ncclResult_t result = ncclSuccess;
    for (size_t r = 0; r < ranks && result == ncclSuccess; ++r) {
      result = Copy(static_cast<char*>(recvbuff) + r * sendcount, sendbuff, sendcount, stream);
    }
    return result;
  });
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Submit({static_cast<const char*>(sendbuff), nullptr, count, peer, comm, stream}, datatype);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Submit({nullptr, static_cast<char*>(recvbuff), count, peer, comm, stream}, datatype);
}

ncclResult_t ncclGroupStart() { return std::exchange(group_is_open, true) ? ncclInvalidUsage : ncclSuccess; }

ncclResult_t ncclGroupEnd() {
  if (!std::exchange(group_is_open, false)) return ncclInvalidUsage;
  const std::vector<Message> messages = std::exchange(group_messages, {});
  if (messages.empty()) return ncclSuccess;
  ++groups;
  return Enqueue(messages[0].comm, [messages] { return Exchange(messages); });
}

void stream_nccl_set_non_blocking(ncclComm_t comm) { comm->non_blocking = true; }

int stream_nccl_groups() { return groups; }
