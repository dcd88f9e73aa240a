// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/comm/nccl.h"

#include <dlfcn.h>

#include <memory>
#include <thread>

namespace shampoo {
namespace {

// Constants of the NCCL 2 interface. nccl.h is not included, so that the build needs no NCCL. NCCL's handles are
// pointers, and its enums have the size of an int.
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kUint8 = 1;

struct Closer {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Closer>;

// The functions of NCCL that this file calls, and the communicator that it passes to them.
struct Nccl {
  Library library;  // keeps the library loaded even if the program closes it
  void* comm = nullptr;
  int world = 0;
  int (*all_gather)(const void* send, void* recv, size_t count, int datatype, void* comm, void* stream) = nullptr;
  int (*comm_count)(void* comm, int* count) = nullptr;
  int (*comm_user_rank)(void* comm, int* rank) = nullptr;
  int (*get_async_error)(void* comm, int* error) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;
  // AllToAll() needs these four functions. ncclSend and ncclRecv have existed since NCCL 2.7.
  int (*send)(const void* send, size_t count, int datatype, int peer, void* comm, void* stream) = nullptr;
  int (*recv)(void* recv, size_t count, int datatype, int peer, void* comm, void* stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  bool has_all_to_all() const {
    return send != nullptr && recv != nullptr && group_start != nullptr && group_end != nullptr;
  }
};

// Waits until NCCL has enqueued the work of a call in the stream, and returns the final result of the call. If the
// communicator is non-blocking, the call itself may return kInProgress before NCCL has enqueued the work.
int32_t Finish(const Nccl& nccl, int result) {
  while (result == kInProgress) {
    std::this_thread::yield();
    int state = kSuccess;
    const int queried = nccl.get_async_error(nccl.comm, &state);
    result = queried != kSuccess ? queried : state;
  }
  return result;
}

int32_t AllGather(void* user, const void* send, void* recv, size_t bytes_per_rank, void* stream) {
  const Nccl* const nccl = static_cast<const Nccl*>(user);
  return Finish(*nccl, nccl->all_gather(send, recv, bytes_per_rank, kUint8, nccl->comm, stream));
}

bool Failed(int result) { return result != kSuccess && result != kInProgress; }

int32_t AllToAll(void* user, const void* send, const size_t* send_bytes, void* recv, const size_t* recv_bytes,
                 void* stream) {
  const Nccl* const nccl = static_cast<const Nccl*>(user);
  size_t sent = 0, received = 0;
  int result = nccl->group_start();
  if (result != kSuccess) return result;
  for (int r = 0; r < nccl->world && !Failed(result); ++r) {
    if (send_bytes[r] > 0) {
      result = nccl->send(static_cast<const char*>(send) + sent, send_bytes[r], kUint8, r, nccl->comm, stream);
    }
    if (recv_bytes[r] > 0 && !Failed(result)) {
      result = nccl->recv(static_cast<char*>(recv) + received, recv_bytes[r], kUint8, r, nccl->comm, stream);
    }
    sent += send_bytes[r];
    received += recv_bytes[r];
  }
  // End the group even after an error: otherwise it would stay open for all later NCCL calls of this thread.
  const int ended = nccl->group_end();
  return Failed(result) ? result : Finish(*nccl, ended);
}

int32_t AsyncError(void* user) {
  const Nccl* const nccl = static_cast<const Nccl*>(user);
  int state = kSuccess;
  const int queried = nccl->get_async_error(nccl->comm, &state);
  if (queried != kSuccess) return queried;
  return state == kInProgress ? kSuccess : state;
}

void Release(void* user) { delete static_cast<Nccl*>(user); }

template <typename Function>
void FindOptional(void* library, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
}

template <typename Function>
Status Find(void* library, const char* path, const char* name, Function* out) {
  FindOptional(library, name, out);
  if (*out != nullptr) return {};
  return Unsupported("libnccl_path \"", path, "\" has no function ", name,
                     ": expected NCCL 2.4 or later; pass the path of the file from which your program loaded NCCL");
}

Status FindFunctions(const char* path, Nccl* nccl) {
  void* const library = nccl->library.get();
  SHAMPOO_RETURN_IF_ERROR(Find(library, path, "ncclAllGather", &nccl->all_gather));
  SHAMPOO_RETURN_IF_ERROR(Find(library, path, "ncclCommCount", &nccl->comm_count));
  SHAMPOO_RETURN_IF_ERROR(Find(library, path, "ncclCommUserRank", &nccl->comm_user_rank));
  SHAMPOO_RETURN_IF_ERROR(Find(library, path, "ncclCommGetAsyncError", &nccl->get_async_error));
  FindOptional(library, "ncclSend", &nccl->send);
  FindOptional(library, "ncclRecv", &nccl->recv);
  FindOptional(library, "ncclGroupStart", &nccl->group_start);
  FindOptional(library, "ncclGroupEnd", &nccl->group_end);
  return Find(library, path, "ncclGetErrorString", &nccl->get_error_string);
}

Status Accept(const Nccl& nccl, const char* function, int result) {
  if (result == kSuccess) return {};
  return Invalid(
      "nccl_comm: ", function, " returned ", result, " (", nccl.get_error_string(result),
      "): expected a live ncclComm_t that was created by the library at libnccl_path (default: libnccl.so.2)");
}

}  // namespace

Status NcclOps(void* nccl_comm, const char* path, CommOps* ops) {
  if (path == nullptr) path = "libnccl.so.2";
  auto nccl = std::make_unique<Nccl>();
  nccl->library.reset(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
  if (nccl->library == nullptr) {
    return WrongState(
        "libnccl_path \"", path,
        "\": this process has loaded no library by that name, and libshampoo does not load NCCL; create "
        "the NCCL communicator first, or pass the path of the file from which NCCL was loaded (with PyTorch's wheels: "
        ".../nvidia/nccl/lib/libnccl.so.2), or compile shampoo_nccl.h if NCCL is linked statically");
  }
  nccl->comm = nccl_comm;
  SHAMPOO_RETURN_IF_ERROR(FindFunctions(path, nccl.get()));

  CommOps found;
  SHAMPOO_RETURN_IF_ERROR(Accept(*nccl, "ncclCommUserRank", nccl->comm_user_rank(nccl_comm, &found.rank)));
  SHAMPOO_RETURN_IF_ERROR(Accept(*nccl, "ncclCommCount", nccl->comm_count(nccl_comm, &found.world)));
  nccl->world = found.world;
  found.takes_device_memory = true;
  found.all_gather = AllGather;
  if (nccl->has_all_to_all()) found.all_to_all = AllToAll;
  found.async_error = AsyncError;
  // There is no abort function, because ncclCommAbort would free the communicator, which the caller owns.
  found.release = Release;
  found.user = nccl.release();
  *ops = found;
  return {};
}

}  // namespace shampoo
