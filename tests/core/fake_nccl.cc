// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A fake NCCL for tests: a shared library with the functions of NCCL that libshampoo calls. Every communicator has two
// ranks, and this process is rank 1.
#include "tests/core/fake_nccl.h"

namespace {

shampoo::FakeNccl nccl;

int Record(const std::string& function, const std::string& call, int result) {
  nccl.calls.push_back(call);
  return nccl.failing == function ? 5 : result;
}

}  // namespace

#define SHAMPOO_FAKE extern "C" __attribute__((visibility("default")))

SHAMPOO_FAKE shampoo::FakeNccl* fake_nccl() { return &nccl; }
SHAMPOO_FAKE int ncclCommUserRank(void*, int* rank) {
  *rank = 1;
  return Record("rank", "rank", 0);
}
SHAMPOO_FAKE int ncclCommCount(void*, int* count) {
  *count = 2;
  return Record("count", "count", 0);
}
SHAMPOO_FAKE int ncclCommGetAsyncError(void*, int* error) {
  *error = nccl.in_progress > 0 ? 7 : nccl.state;
  --nccl.in_progress;
  return Record("state", "state", 0);
}
SHAMPOO_FAKE const char* ncclGetErrorString(int) { return "a fake error"; }
SHAMPOO_FAKE int ncclAllGather(const void*, void*, size_t bytes, int, void*, void*) {
  return Record("gather", "gather " + std::to_string(bytes), nccl.result);
}
SHAMPOO_FAKE int ncclSend(const void*, size_t bytes, int, int peer, void*, void*) {
  return Record("send", "send " + std::to_string(bytes) + " to " + std::to_string(peer), nccl.result);
}
SHAMPOO_FAKE int ncclRecv(void*, size_t bytes, int, int peer, void*, void*) {
  return Record("recv", "recv " + std::to_string(bytes) + " from " + std::to_string(peer), 0);
}
SHAMPOO_FAKE int ncclGroupStart() { return Record("start", "start", 0); }
SHAMPOO_FAKE int ncclGroupEnd() { return Record("end", "end", nccl.result); }
