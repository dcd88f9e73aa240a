// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the callbacks of shampoo_nccl.h with the stand-in for NCCL (tests/distributed/standin). Ranks are threads.
#include <doctest/doctest.h>
#include <shampoo/shampoo_nccl.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "nccl_standin.h"

namespace {

constexpr size_t kBytes = 1000;

// Runs body(rank, comm) on one thread per rank. Then destroys the communicators that `body` has not set to nullptr.
void OnRanks(int world, const std::function<void(int rank, ncclComm_t* comm)>& body) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(world));
  REQUIRE(ncclCommInitAll(comms.data(), world, nullptr) == ncclSuccess);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) ranks.emplace_back(body, rank, &comms[static_cast<size_t>(rank)]);
  for (std::thread& rank : ranks) rank.join();
  for (ncclComm_t comm : comms) {
    if (comm != nullptr) ncclCommDestroy(comm);
  }
}

shampoo_comm_ops OpsOf(ncclComm_t comm) {
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  REQUIRE(shampoo_nccl_ops(comm, &ops) == ncclSuccess);
  return ops;
}
shampoo_comm_ops AbortableOpsOf(ncclComm_t* comm) {
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  REQUIRE(shampoo_nccl_abortable_ops(comm, &ops) == ncclSuccess);
  return ops;
}

// Returns byte i of the data that a sender sends in a round. The data differs between senders and between rounds.
// For an all-to-all, `sender` is the number 10 * (sending rank) + (receiving rank).
char SentByte(int sender, int round, size_t i) {
  return static_cast<char>(sender * 41 + round * 7 + static_cast<int>(i));
}

int CountWrong(const std::vector<char>& gathered, int world, int round) {
  int wrong = 0;
  for (int rank = 0; rank < world; ++rank) {
    for (size_t i = 0; i < kBytes; ++i)
      wrong += gathered[static_cast<size_t>(rank) * kBytes + i] != SentByte(rank, round, i);
  }
  return wrong;
}

// Makes one all-gather and returns the number of wrong bytes, or -1 after a failure.
int GatherOnce(const shampoo_comm_ops& ops, int round, bool in_place) {
  const auto world = static_cast<size_t>(ops.world), rank = static_cast<size_t>(ops.rank);
  std::vector<char> own(kBytes), all(world * kBytes);
  char* const send = in_place ? all.data() + rank * kBytes : own.data();
  for (size_t i = 0; i < kBytes; ++i) send[i] = SentByte(ops.rank, round, i);
  if (ops.async_error(ops.user) != 0) return -1;
  if (ops.all_gather(ops.user, send, all.data(), kBytes, nullptr) != 0) return -1;
  return CountWrong(all, ops.world, round);
}

// Makes 20 all-gathers and returns the number of those that failed or gathered wrong bytes.
int GatherOften(const shampoo_comm_ops& ops) {
  int wrong = 0;
  for (int round = 0; round < 20; ++round) wrong += GatherOnce(ops, round, round % 2 == 0) != 0;
  return wrong;
}

// Returns the number of bytes that rank `from` sends to rank `to`. The number may be 0 and depends on the direction.
size_t Bytes(int from, int to, int round) {
  const int number = from * 5 + to * 3 + round;
  return number % 4 == 0 ? 0 : static_cast<size_t>(number * 37 % 91);
}

// Makes one all-to-all and returns the number of wrong bytes, or -1 after a failure. Also counts the byte after the
// received data if all_to_all has changed it.
int ExchangeOnce(const shampoo_comm_ops& ops, int round) {
  std::vector<size_t> send_bytes, recv_bytes;
  std::vector<char> send, expected;
  for (int peer = 0; peer < ops.world; ++peer) {
    send_bytes.push_back(Bytes(ops.rank, peer, round));
    recv_bytes.push_back(Bytes(peer, ops.rank, round));
    for (size_t i = 0; i < send_bytes.back(); ++i) send.push_back(SentByte(ops.rank * 10 + peer, round, i));
    for (size_t i = 0; i < recv_bytes.back(); ++i) expected.push_back(SentByte(peer * 10 + ops.rank, round, i));
  }
  constexpr char kGuard = 0x55;
  expected.push_back(kGuard);
  std::vector<char> recv(expected.size(), kGuard);
  if (ops.async_error(ops.user) != 0) return -1;
  if (ops.all_to_all(ops.user, send.data(), send_bytes.data(), recv.data(), recv_bytes.data(), nullptr) != 0) return -1;
  int wrong = 0;
  for (size_t i = 0; i < expected.size(); ++i) wrong += recv[i] != expected[i];
  return wrong;
}

// Makes 20 all-to-alls, and an all-gather after every third of them. Returns the number of calls that failed or
// delivered wrong bytes.
int ExchangeOften(const shampoo_comm_ops& ops) {
  int wrong = 0;
  for (int round = 0; round < 20; ++round) {
    wrong += ExchangeOnce(ops, round) != 0;
    if (round % 3 == 0) wrong += GatherOnce(ops, round, true) != 0;
  }
  return wrong;
}

// Sends send_bytes bytes to each rank, and receives recv_bytes bytes from each rank. Returns the result of all_to_all.
int32_t ExchangeBytes(const shampoo_comm_ops& ops, size_t send_bytes = 1, size_t recv_bytes = 1) {
  const auto world = static_cast<size_t>(ops.world);
  const std::vector<size_t> to(world, send_bytes), from(world, recv_bytes);
  std::vector<char> send(world * send_bytes), recv(world * recv_bytes);
  return ops.all_to_all(ops.user, send.data(), to.data(), recv.data(), from.data(), nullptr);
}

// Returns whether this thread is between ncclGroupStart and ncclGroupEnd. If so, ends the group.
bool GroupIsOpen() { return ncclGroupEnd() != ncclInvalidUsage; }

}  // namespace

TEST_CASE("shampoo_nccl.h fills the callbacks from a communicator") {
  OnRanks(3, [](int rank, ncclComm_t* comm) {
    shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
    CHECK(shampoo_nccl_ops(*comm, &ops) == ncclSuccess);
    CHECK(ops.struct_size == sizeof ops);
    CHECK(ops.rank == rank);
    CHECK(ops.world == 3);
    CHECK(ops.device_type == SHAMPOO_CUDA);
    CHECK((ops.abort == nullptr));
    CHECK((ops.release == nullptr));
  });
}

TEST_CASE("invalid arguments are rejected and change nothing") {
  shampoo_comm_ops ops = SHAMPOO_COMM_OPS_INIT;
  ops.rank = 77;
  CHECK(shampoo_nccl_ops(nullptr, &ops) == ncclInvalidArgument);
  CHECK(shampoo_nccl_abortable_ops(nullptr, &ops) == ncclInvalidArgument);
  ncclComm_t gone = nullptr;
  CHECK(shampoo_nccl_abortable_ops(&gone, &ops) == ncclInvalidArgument);
  CHECK(ops.rank == 77);
  OnRanks(1, [](int, ncclComm_t* comm) { CHECK(shampoo_nccl_ops(*comm, nullptr) == ncclInvalidArgument); });
}

TEST_CASE("all_gather works in place and out of place") {
  for (int world = 1; world <= 4; ++world) {
    CAPTURE(world);
    OnRanks(world, [](int, ncclComm_t* comm) {
      shampoo_comm_ops ops = OpsOf(*comm);
      CHECK(GatherOften(ops) == 0);
    });
  }
}

TEST_CASE("all_to_all sends any number of bytes, even 0, from each rank to every rank, including itself") {
  for (int world = 1; world <= 4; ++world) {
    CAPTURE(world);
    OnRanks(world, [](int, ncclComm_t* comm) {
      shampoo_comm_ops ops = OpsOf(*comm);
      CHECK(ExchangeOften(ops) == 0);
      REQUIRE(shampoo_nccl_abortable_ops(comm, &ops) == ncclSuccess);
      CHECK(ExchangeOften(ops) == 0);
      // If there are no bytes to send or receive, the buffers may be NULL.
      const std::vector<size_t> none(static_cast<size_t>(ops.world));
      CHECK(ops.all_to_all(ops.user, nullptr, none.data(), nullptr, none.data(), nullptr) == 0);
    });
  }
}

TEST_CASE("the callbacks wait until a call on a non-blocking communicator is complete") {
  OnRanks(4, [](int rank, ncclComm_t* comm) {
    if (rank % 2 == 0) ncclStandinSetNonBlocking(*comm);
    shampoo_comm_ops ops = OpsOf(*comm);
    CHECK(GatherOften(ops) == 0);
    CHECK(ExchangeOften(ops) == 0);
    ncclComm_t group = nullptr;
    CHECK(shampoo_nccl_split(*comm, 2, &group) == ncclSuccess);
    REQUIRE(group != nullptr);
    ncclCommDestroy(group);
  });
}

TEST_CASE("shampoo_nccl_split makes communicators that gather within groups of consecutive ranks") {
  OnRanks(4, [](int rank, ncclComm_t* comm) {
    for (const int group_size : {1, 2, 4}) {
      CAPTURE(group_size);
      ncclComm_t group = nullptr;
      REQUIRE(shampoo_nccl_split(*comm, group_size, &group) == ncclSuccess);
      shampoo_comm_ops ops = OpsOf(group);
      CHECK(ops.world == group_size);
      CHECK(ops.rank == rank % group_size);
      CHECK(GatherOften(ops) == 0);
      // Gather the ranks that the members of the group have in the original communicator.
      std::vector<int> members(static_cast<size_t>(group_size));
      CHECK(ops.all_gather(ops.user, &rank, members.data(), sizeof rank, nullptr) == 0);
      for (int i = 0; i < group_size; ++i) CHECK(members[static_cast<size_t>(i)] == rank - rank % group_size + i);
      ncclCommDestroy(group);
    }
    ncclComm_t group = nullptr;
    for (const int group_size : {-1, 0, 3, 5, 8}) {
      CHECK(shampoo_nccl_split(*comm, group_size, &group) == ncclInvalidArgument);
    }
    CHECK(shampoo_nccl_split(*comm, 2, nullptr) == ncclInvalidArgument);
    CHECK(shampoo_nccl_split(nullptr, 2, &group) == ncclInvalidArgument);
  });
}

TEST_CASE("the callbacks report a failure of NCCL") {
  OnRanks(1, [](int, ncclComm_t* comm) {
    shampoo_comm_ops ops = OpsOf(*comm);
    CHECK(ops.async_error(ops.user) == 0);
    ncclStandinBreak(*comm, ncclSystemError);
    char byte = 0;
    CHECK(ops.async_error(ops.user) == ncclSystemError);
    CHECK(ops.all_gather(ops.user, &byte, &byte, 1, nullptr) == ncclSystemError);
    CHECK(ExchangeBytes(ops) == ncclSystemError);
    CHECK_FALSE(GroupIsOpen());
  });
}

TEST_CASE("a receive that NCCL rejects is reported, and the NCCL group is ended") {
  OnRanks(1, [](int, ncclComm_t* comm) {
    shampoo_comm_ops ops = OpsOf(*comm);
    const char byte = 0;
    const size_t one = 1;
    CHECK(ops.all_to_all(ops.user, &byte, &one, nullptr, &one, nullptr) == ncclInvalidArgument);
    CHECK_FALSE(GroupIsOpen());
    CHECK(ExchangeBytes(ops) == 0);
  });
}

TEST_CASE("a collective in which ranks use different sizes fails on every rank") {
  OnRanks(3, [](int rank, ncclComm_t* comm) {
    shampoo_comm_ops ops = OpsOf(*comm);
    std::vector<char> own(2), all(6);
    CHECK(ops.all_gather(ops.user, own.data(), all.data(), rank == 1 ? 2 : 1, nullptr) == ncclInvalidArgument);
    // Every rank expects one byte from rank 1, which sends two bytes to every rank.
    CHECK(ExchangeBytes(ops, rank == 1 ? 2 : 1, 1) == ncclInvalidArgument);
    CHECK(ExchangeBytes(ops) == 0);
  });
}

TEST_CASE("abort ends an all_gather on the other ranks and sets the communicator of the calling rank to NULL") {
  OnRanks(3, [](int rank, ncclComm_t* comm) {
    const shampoo_comm_ops ops = AbortableOpsOf(comm);
    CHECK(GatherOnce(ops, 0, true) == 0);
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the other ranks wait
      ops.abort(ops.user);
      CHECK(*comm == nullptr);
      ops.abort(ops.user);
      CHECK(ops.async_error(ops.user) == ncclInvalidUsage);
      CHECK(GatherOnce(ops, 1, true) == -1);
      CHECK(ExchangeBytes(ops) == ncclInvalidUsage);
      CHECK_FALSE(GroupIsOpen());
    } else {
      if (rank == 1) ncclStandinSetNonBlocking(*comm);
      std::vector<char> all(3);
      CHECK(ops.all_gather(ops.user, &all[static_cast<size_t>(rank)], all.data(), 1, nullptr) == ncclRemoteError);
      CHECK(ops.async_error(ops.user) == ncclRemoteError);
    }
  });
}

TEST_CASE("abort on one rank ends an all_to_all on the other ranks") {
  OnRanks(3, [](int rank, ncclComm_t* comm) {
    const shampoo_comm_ops ops = AbortableOpsOf(comm);
    CHECK(ExchangeOnce(ops, 0) == 0);
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the other ranks wait
      ops.abort(ops.user);
    } else {
      if (rank == 1) ncclStandinSetNonBlocking(*comm);
      CHECK(ExchangeBytes(ops) == ncclRemoteError);
      CHECK_FALSE(GroupIsOpen());
    }
  });
}
