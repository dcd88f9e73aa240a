// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// NCCL for fake GPUs. The linker finds these functions before those of the stand-in for NCCL, which takes host memory.
// These functions copy the data to host memory and back, in the order of the stream, and call the stand-in in between.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <vector>

#include "tests/cuda/fake/control.h"

namespace {

size_t SizeOf(ncclDataType_t type) { return type == ncclFloat32 ? 4 : type == ncclUint8 ? 1 : 0; }

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// Calls `collective` with copies of the buffers in host memory.
template <typename Collective>
ncclResult_t Stage(const void* send, size_t send_bytes, void* recv, size_t recv_bytes, cudaStream_t stream,
                   const Collective& collective) {
  if (fake_cuda_check_collective(send, send_bytes) == 0 || fake_cuda_check_collective(recv, recv_bytes) == 0) {
    return ncclInvalidArgument;
  }
  std::vector<char> sent(send_bytes), received(recv_bytes);
  cudaError_t error = cudaMemcpyAsync(sent.data(), send, send_bytes, cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess) return ncclUnhandledCudaError;
  const ncclResult_t result = collective(sent.data(), received.data());
  if (result != ncclSuccess) return result;
  error = cudaMemcpyAsync(recv, received.data(), recv_bytes, cudaMemcpyHostToDevice, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
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

}  // extern "C"
