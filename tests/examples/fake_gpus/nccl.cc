// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions of NCCL for memory of fake GPUs. They hide the functions of the same names in tests/distributed/standin, a
// stand-in for NCCL that takes host memory. Each collective function waits for the stream, copies the data to host
// memory, calls the function of the stand-in, and copies the result back. A group of calls, from ncclGroupStart() to
// ncclGroupEnd(), may contain only ncclSend() and ncclRecv().
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <utility>
#include <vector>

#include "tests/cuda/fake/control.h"

namespace {

size_t SizeOf(ncclDataType_t type) { return type == ncclFloat32 ? 4 : type == ncclUint8 ? 1 : 0; }

// Returns the stand-in's function with this name.
template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// These two functions copy `bytes` bytes on the stream and wait until the copy has finished.
ncclResult_t CopyToHost(void* host, const void* device, size_t bytes, cudaStream_t stream) {
  cudaError_t error = cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t CopyToDevice(void* device, const void* host, size_t bytes, cudaStream_t stream) {
  cudaError_t error = cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

// A call of ncclSend() or ncclRecv().
struct Message {
  const void* send;  // nullptr: the rank receives
  void* recv;
  size_t count;
  ncclDataType_t datatype;
  int peer;
  ncclComm_t comm;
  cudaStream_t stream;

  const void* data() const { return send != nullptr ? send : recv; }
  size_t bytes() const { return count * SizeOf(datatype); }
};

// The open group of this thread: the number of calls of ncclGroupStart() without a matching ncclGroupEnd(), the
// messages of the group, and the first error of the group.
thread_local int group_depth = 0;
thread_local std::vector<Message> group_messages;
thread_local ncclResult_t group_error = ncclSuccess;

// Executes messages as one group of the stand-in. Received data is written to the devices at the end, when the data of
// all sends has been read.
ncclResult_t Exchange(const std::vector<Message>& messages) {
  static const auto kStart = Next<decltype(&ncclGroupStart)>("ncclGroupStart");
  static const auto kEnd = Next<decltype(&ncclGroupEnd)>("ncclGroupEnd");
  static const auto kSend = Next<decltype(&ncclSend)>("ncclSend");
  static const auto kRecv = Next<decltype(&ncclRecv)>("ncclRecv");
  std::vector<std::vector<char>> staged;
  ncclResult_t result = ncclSuccess;
  for (const Message& m : messages) {
    staged.emplace_back(m.bytes());
    if (m.send != nullptr && result == ncclSuccess) {
      result = CopyToHost(staged.back().data(), m.send, m.bytes(), m.stream);
    }
  }
  if (result == ncclSuccess) result = kStart();
  if (result != ncclSuccess) return result;
  for (size_t i = 0; i < messages.size() && result == ncclSuccess; ++i) {
    const Message& m = messages[i];
    void* const host = staged[i].data();
    result = m.send != nullptr ? kSend(host, m.count, m.datatype, m.peer, m.comm, nullptr)
                               : kRecv(host, m.count, m.datatype, m.peer, m.comm, nullptr);
  }
  const ncclResult_t ended = kEnd();
  if (result == ncclSuccess) result = ended;
  for (size_t i = 0; i < messages.size() && result == ncclSuccess; ++i) {
    const Message& m = messages[i];
    if (m.send == nullptr) result = CopyToDevice(m.recv, staged[i].data(), m.bytes(), m.stream);
  }
  return result;
}

// If a group is open, adds the message to the group, otherwise executes it immediately.
ncclResult_t Submit(const Message& message) {
  if (fake_cuda_check_collective(message.data(), message.bytes()) == 0) {
    if (group_depth > 0 && group_error == ncclSuccess) group_error = ncclInvalidArgument;
    return ncclInvalidArgument;
  }
  if (group_depth == 0) return Exchange({message});
  group_messages.push_back(message);
  return ncclSuccess;
}

// Calls `collective` with a copy of `send` in host memory, and copies the result to `recv`.
template <typename Collective>
ncclResult_t Stage(const void* send, size_t send_bytes, void* recv, size_t recv_bytes, cudaStream_t stream,
                   const Collective& collective) {
  if (group_depth > 0) return ncclInvalidUsage;
  if (fake_cuda_check_collective(send, send_bytes) == 0 || fake_cuda_check_collective(recv, recv_bytes) == 0) {
    return ncclInvalidArgument;
  }
  std::vector<char> sent(send_bytes), received(recv_bytes);
  ncclResult_t result = CopyToHost(sent.data(), send, send_bytes, stream);
  if (result == ncclSuccess) result = collective(sent.data(), received.data());
  return result == ncclSuccess ? CopyToDevice(recv, received.data(), recv_bytes, stream) : result;
}

}  // namespace

extern "C" {

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  static const auto kNext = Next<decltype(&ncclAllGather)>("ncclAllGather");
  int ranks = 0;
  if (ncclCommCount(comm, &ranks) != ncclSuccess) return ncclInvalidArgument;
  const size_t bytes = sendcount * SizeOf(datatype);
  return Stage(sendbuff, bytes, recvbuff, bytes * static_cast<size_t>(ranks), stream,
               [&](void* send, void* recv) { return kNext(send, recv, sendcount, datatype, comm, nullptr); });
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  static const auto kNext = Next<decltype(&ncclAllReduce)>("ncclAllReduce");
  const size_t bytes = count * SizeOf(datatype);
  return Stage(sendbuff, bytes, recvbuff, bytes, stream,
               [&](void* send, void* recv) { return kNext(send, recv, count, datatype, op, comm, nullptr); });
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  static const auto kNext = Next<decltype(&ncclReduceScatter)>("ncclReduceScatter");
  int ranks = 0;
  if (ncclCommCount(comm, &ranks) != ncclSuccess) return ncclInvalidArgument;
  const size_t bytes = recvcount * SizeOf(datatype);
  return Stage(sendbuff, bytes * static_cast<size_t>(ranks), recvbuff, bytes, stream,
               [&](void* send, void* recv) { return kNext(send, recv, recvcount, datatype, op, comm, nullptr); });
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Submit({sendbuff, nullptr, count, datatype, peer, comm, stream});
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Submit({nullptr, recvbuff, count, datatype, peer, comm, stream});
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  const std::vector<Message> messages = std::exchange(group_messages, {});
  const ncclResult_t error = std::exchange(group_error, ncclSuccess);
  return error != ncclSuccess || messages.empty() ? error : Exchange(messages);
}

}  // extern "C"
