// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests NcclOps (core/comm/nccl.h), which creates communicator callbacks from an NCCL that the process has loaded. The
// test cases load the stand-in for NCCL with dlopen, so this program is not linked with the stand-in.
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

// Checks an all-to-all of three ranks: rank r sends r + 1 bytes to the next rank, two bytes to itself and no bytes to
// the previous rank.
void CheckExchange(const CommOps& ops) {
  const auto rank = static_cast<size_t>(ops.rank), world = static_cast<size_t>(ops.world);
  const size_t next = (rank + 1) % world, previous = (rank + world - 1) % world;
  std::vector<size_t> send_bytes(world), recv_bytes(world);
  send_bytes[rank] = recv_bytes[rank] = 2;
  send_bytes[next] = rank + 1;
  recv_bytes[previous] = previous + 1;
  std::string send, expected;
  for (size_t r = 0; r < world; ++r) {
    send += std::string(send_bytes[r], static_cast<char>('a' + rank * world + r));
    expected += std::string(recv_bytes[r], static_cast<char>('a' + r * world + rank));
  }
  std::string recv(expected.size(), '-');
  CHECK(ops.all_to_all(ops.user, send.data(), send_bytes.data(), recv.data(), recv_bytes.data(), nullptr) == 0);
  CHECK(recv == expected);
}

// Sends one byte from the only rank to itself.
int32_t ExchangeByte(const CommOps& ops, void* recv) {
  const char byte = 1;
  const size_t one = 1;
  return ops.all_to_all(ops.user, &byte, &one, recv, &one, nullptr);
}

}  // namespace

TEST_CASE("if NCCL is not loaded, the library reports an error and does not load NCCL") {
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

TEST_CASE("if a loaded library is not NCCL, the error names a function that the library lacks") {
  CommOps ops;
  int comm = 0;
  const Status status = NcclOps(&comm, "libc.so.6", &ops);
  CHECK(status.code() == Code::kUnsupported);
  CHECK(Has(status, "libc.so.6"));
  CHECK(Has(status, "ncclAllGather"));
}

TEST_CASE("ranks exchange data over a loaded NCCL, which stays loaded while a communicator uses it") {
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
    // The stand-in was loaded by its path. With nullptr, NcclOps looks for libnccl.so.2. NcclOps finds the stand-in,
    // because the stand-in has this soname.
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
      CheckExchange(own);
    });
  }
  for (std::thread& rank : ranks) rank.join();

  break_comm(comms[1], ncclRemoteError);
  CHECK(ops[1].async_error(ops[1].user) == ncclRemoteError);
  for (ncclComm_t comm : comms) destroy(comm);
  for (const CommOps& own : ops) own.release(own.user);
}

TEST_CASE("all_to_all waits for the exchange of a non-blocking communicator, and returns errors of NCCL") {
  void* const library = dlopen(SHAMPOO_NCCL_STANDIN, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto group_end = Symbol<decltype(&ncclGroupEnd)>(library, "ncclGroupEnd");
  ncclComm_t comms[3];
  REQUIRE(Symbol<decltype(&ncclCommInitAll)>(library, "ncclCommInitAll")(comms, 3, nullptr) == ncclSuccess);
  std::vector<std::thread> ranks;
  for (ncclComm_t comm : comms) {
    ranks.emplace_back([&, comm] {
      CommOps ops;
      REQUIRE(NcclOps(comm, nullptr, &ops).ok());
      Symbol<void (*)(ncclComm_t)>(library, "ncclStandinSetNonBlocking")(comm);
      for (int round = 0; round < 20; ++round) CheckExchange(ops);
      ops.release(ops.user);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (ncclComm_t comm : comms) Symbol<decltype(&ncclCommDestroy)>(library, "ncclCommDestroy")(comm);

  ncclComm_t alone = nullptr;
  REQUIRE(Symbol<decltype(&ncclCommInitAll)>(library, "ncclCommInitAll")(&alone, 1, nullptr) == ncclSuccess);
  CommOps ops;
  REQUIRE(NcclOps(alone, nullptr, &ops).ok());
  char received = 0;
  CHECK(ExchangeByte(ops, nullptr) == ncclInvalidArgument);  // NCCL rejects the receive
  CHECK(group_end() == ncclInvalidUsage);                    // all_to_all has ended its NCCL group
  CHECK(ExchangeByte(ops, &received) == 0);
  CHECK(received == 1);
  Symbol<void (*)(ncclComm_t, ncclResult_t)>(library, "ncclStandinBreak")(alone, ncclSystemError);
  CHECK(ExchangeByte(ops, &received) == ncclSystemError);
  CHECK(group_end() == ncclInvalidUsage);
  ops.release(ops.user);
  Symbol<decltype(&ncclCommDestroy)>(library, "ncclCommDestroy")(alone);
  dlclose(library);
}

TEST_CASE("a communicator has no all_to_all if its NCCL lacks ncclSend and ncclRecv") {
  void* const library = dlopen(SHAMPOO_NCCL_OLD, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  CommOps ops;
  int comm = 0;
  const Status status = NcclOps(&comm, SHAMPOO_NCCL_OLD, &ops);
  CAPTURE(status.message());
  REQUIRE(status.ok());
  CHECK((ops.all_gather != nullptr));
  CHECK((ops.all_to_all == nullptr));
  ops.release(ops.user);
  dlclose(library);
}

TEST_CASE("if NCCL rejects a communicator, the error contains the message of NCCL") {
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
