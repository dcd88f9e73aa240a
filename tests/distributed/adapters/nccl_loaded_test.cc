// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// NCCL found in the process. This program does not link the stand-in: whether it is loaded is the subject.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <string>
#include <thread>
#include <vector>

#include "core/comm/nccl.h"

namespace shampoo {
namespace {

bool Has(const Status& status, const std::string& text) { return status.message().find(text) != std::string::npos; }

template <typename Function>
Function Symbol(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

TEST_CASE("NCCL that is not loaded is refused, and loaded by nobody") {
  CommOps ops;
  int comm = 0;
  const Status by_default = NcclOps(&comm, nullptr, &ops);
  CHECK(by_default.code() == Code::kState);
  CHECK(Has(by_default, "libnccl.so.2"));
  const Status by_path = NcclOps(&comm, SHAMPOO_NCCL_STANDIN, &ops);
  CHECK(by_path.code() == Code::kState);
  CHECK(Has(by_path, SHAMPOO_NCCL_STANDIN));
  CHECK(dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD) == nullptr);
  CHECK((ops.all_gather == nullptr));
}

TEST_CASE("a library that is no NCCL is refused by the name of what it lacks") {
  CommOps ops;
  int comm = 0;
  const Status status = NcclOps(&comm, "libc.so.6", &ops);
  CHECK(status.code() == Code::kUnsupported);
  CHECK(Has(status, "libc.so.6"));
  CHECK(Has(status, "ncclAllGather"));
}

TEST_CASE("a communicator of the loaded copy gathers; the copy stays as long as it is used") {
  void* const library = dlopen(SHAMPOO_NCCL_STANDIN, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto init_all = Symbol<decltype(&ncclCommInitAll)>(library, "ncclCommInitAll");
  const auto destroy = Symbol<decltype(&ncclCommDestroy)>(library, "ncclCommDestroy");
  const auto break_comm = Symbol<void (*)(ncclComm_t, ncclResult_t)>(library, "ncclStandinBreak");

  constexpr int kWorld = 3;
  ncclComm_t comms[kWorld];
  REQUIRE(init_all(comms, kWorld, nullptr) == ncclSuccess);
  std::vector<CommOps> ops(kWorld);
  for (int rank = 0; rank < kWorld; ++rank) {
    CommOps& own = ops[static_cast<size_t>(rank)];
    // The default name finds it, too: it is the soname of what was loaded by its path.
    const Status status = NcclOps(comms[rank], rank == 0 ? nullptr : SHAMPOO_NCCL_STANDIN, &own);
    CAPTURE(status.message());
    REQUIRE(status.ok());
    CHECK(own.rank == rank);
    CHECK(own.world == kWorld);
    CHECK(own.takes_device_memory);
    CHECK((own.abort == nullptr));
  }
  dlclose(library);

  std::vector<std::thread> ranks;
  for (const CommOps& own : ops) {
    ranks.emplace_back([&own] {
      int gathered[kWorld] = {};
      gathered[own.rank] = 10 + own.rank;
      CHECK(own.async_error(own.user) == 0);
      CHECK(own.all_gather(own.user, gathered + own.rank, gathered, sizeof(int), nullptr) == 0);
      for (int r = 0; r < kWorld; ++r) CHECK(gathered[r] == 10 + r);
    });
  }
  for (std::thread& rank : ranks) rank.join();

  break_comm(comms[1], ncclRemoteError);
  CHECK(ops[1].async_error(ops[1].user) == ncclRemoteError);
  for (ncclComm_t comm : comms) destroy(comm);
  for (const CommOps& own : ops) own.release(own.user);
}

TEST_CASE("what NCCL refuses is an error with its words") {
  void* const library = dlopen(SHAMPOO_NCCL_STANDIN, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  CommOps ops;
  const Status status = NcclOps(nullptr, nullptr, &ops);
  CHECK(status.code() == Code::kInvalid);
  CHECK(Has(status, "invalid argument"));
  CHECK(Has(status, "nccl_comm"));
  dlclose(library);
}

}  // namespace shampoo
