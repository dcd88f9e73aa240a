// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/comm/nccl.h"

#include <dlfcn.h>

#include <memory>
#include <thread>

namespace shampoo {
namespace {

// Of the interface of NCCL 2: nccl.h is the caller's, and never included here. Handles are pointers, enums are int.
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kUint8 = 1;

struct Closer {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Closer>;

// The functions that are used, of one copy of NCCL, and the communicator that they are called with.
struct Nccl {
  Library library;  // held, so that the host's dlclose does not take the functions away
  void* comm = nullptr;
  int (*all_gather)(const void* send, void* recv, size_t count, int datatype, void* comm, void* stream) = nullptr;
  int (*comm_count)(void* comm, int* count) = nullptr;
  int (*comm_user_rank)(void* comm, int* rank) = nullptr;
  int (*get_async_error)(void* comm, int* error) = nullptr;
  const char* (*get_error_string)(int result) = nullptr;
};

int32_t AllGather(void* user, const void* send, void* recv, size_t bytes_per_rank, void* stream) {
  const Nccl* const nccl = static_cast<const Nccl*>(user);
  int result = nccl->all_gather(send, recv, bytes_per_rank, kUint8, nccl->comm, stream);
  // A communicator of the non-blocking kind returns before the work is in the stream.
  while (result == kInProgress) {
    std::this_thread::yield();
    int state = kSuccess;
    const int asked = nccl->get_async_error(nccl->comm, &state);
    result = asked != kSuccess ? asked : state;
  }
  return result;
}

int32_t AsyncError(void* user) {
  const Nccl* const nccl = static_cast<const Nccl*>(user);
  int state = kSuccess;
  const int asked = nccl->get_async_error(nccl->comm, &state);
  if (asked != kSuccess) return asked;
  return state == kInProgress ? kSuccess : state;
}

void Release(void* user) { delete static_cast<Nccl*>(user); }

template <typename Function>
Status Find(void* library, const char* path, const char* name, Function* out) {
  *out = reinterpret_cast<Function>(dlsym(library, name));
  if (*out != nullptr) return {};
  return Unsupported("libnccl_path \"", path, "\" has no function ", name,
                     ": expected NCCL 2.4 or later; give the file that your program loaded NCCL from");
}

Status FindFunctions(const char* path, Nccl* nccl) {
  void* const library = nccl->library.get();
  SHAMPOO_RETURN_IF_ERROR(Find(library, path, "ncclAllGather", &nccl->all_gather));
  SHAMPOO_RETURN_IF_ERROR(Find(library, path, "ncclCommCount", &nccl->comm_count));
  SHAMPOO_RETURN_IF_ERROR(Find(library, path, "ncclCommUserRank", &nccl->comm_user_rank));
  SHAMPOO_RETURN_IF_ERROR(Find(library, path, "ncclCommGetAsyncError", &nccl->get_async_error));
  return Find(library, path, "ncclGetErrorString", &nccl->get_error_string);
}

Status Accept(const Nccl& nccl, const char* function, int result) {
  if (result == kSuccess) return {};
  return Invalid("nccl_comm: ", function, " returned ", result, " (", nccl.get_error_string(result),
                 "): expected an ncclComm_t that is initialised, of this copy of NCCL, and not yet destroyed");
}

}  // namespace

Status NcclOps(void* nccl_comm, const char* path, CommOps* ops) {
  if (path == nullptr) path = "libnccl.so.2";
  auto nccl = std::make_unique<Nccl>();
  nccl->library.reset(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
  if (nccl->library == nullptr) {
    return WrongState("libnccl_path \"", path,
                      "\": this process has loaded no library by that name, and none is loaded here; make the "
                      "communicator first, or give the file that NCCL was loaded from (of PyTorch's wheels: "
                      ".../nvidia/nccl/lib/libnccl.so.2), or compile shampoo_nccl.h where NCCL is linked statically");
  }
  nccl->comm = nccl_comm;
  SHAMPOO_RETURN_IF_ERROR(FindFunctions(path, nccl.get()));

  CommOps found;
  SHAMPOO_RETURN_IF_ERROR(Accept(*nccl, "ncclCommUserRank", nccl->comm_user_rank(nccl_comm, &found.rank)));
  SHAMPOO_RETURN_IF_ERROR(Accept(*nccl, "ncclCommCount", nccl->comm_count(nccl_comm, &found.world)));
  found.takes_device_memory = true;
  found.all_gather = AllGather;
  found.async_error = AsyncError;
  // No abort: ncclCommAbort frees the communicator, which stays the caller's to destroy.
  found.release = Release;
  found.user = nccl.release();
  *ops = found;
  return {};
}

}  // namespace shampoo
