// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the code that replaces NCCL in tests (tests/distributed/standin): functions that shampoo_nccl.h does not call,
// such as ncclAllReduce, and details that nccl_adapter_test.cc does not check, such as the order of messages.
#include <doctest/doctest.h>
#include <nccl.h>

#include <cstring>
#include <thread>
#include <vector>

TEST_CASE("ranks with the same id form a communicator") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclUniqueId other;
  REQUIRE(ncclGetUniqueId(&other) == ncclSuccess);
  CHECK(std::memcmp(&id, &other, sizeof id) != 0);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 3; ++r) {
    ranks.emplace_back([id, r] {
      ncclComm_t comm = nullptr;
      REQUIRE(ncclCommInitRank(&comm, 3, id, r) == ncclSuccess);
      int rank = -1, world = -1;
      CHECK(ncclCommUserRank(comm, &rank) == ncclSuccess);
      CHECK(ncclCommCount(comm, &world) == ncclSuccess);
      CHECK(rank == r);
      CHECK(world == 3);
      const float own[2] = {static_cast<float>(r), 1};
      float sum[2], mean[2];
      CHECK(ncclAllReduce(own, sum, 2, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess);
      CHECK(sum[0] == 3);
      CHECK(sum[1] == 3);
      CHECK(ncclAllReduce(own, mean, 2, ncclFloat32, ncclAvg, comm, nullptr) == ncclSuccess);
      CHECK(mean[0] == 1);
      CHECK(mean[1] == 1);
      const double parts[3] = {1, 10, 100};
      double part = 0;
      CHECK(ncclReduceScatter(parts, &part, 1, ncclFloat64, ncclSum, comm, nullptr) == ncclSuccess);
      CHECK(part == 3 * parts[r]);
      CHECK(ncclCommDestroy(comm) == ncclSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_CASE("messages of a group are delivered when the group ends, and messages between two ranks keep their order") {
  ncclComm_t comms[3];
  REQUIRE(ncclCommInitAll(comms, 3, nullptr) == ncclSuccess);
  const int first = 5, second[2] = {6, 7}, to_itself = 8;
  int got_first = 0, got_second[2] = {0, 0}, got_own = 0;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  // Rank 2 makes no call, and ncclGroupEnd does not wait for rank 2.
  CHECK(ncclSend(&first, 1, ncclInt32, 1, comms[0], nullptr) == ncclSuccess);
  CHECK(ncclRecv(&got_first, 1, ncclInt32, 0, comms[1], nullptr) == ncclSuccess);
  // The receive and the send of `second` use different types, but both have 8 bytes.
  CHECK(ncclRecv(got_second, 8, ncclUint8, 0, comms[1], nullptr) == ncclSuccess);
  CHECK(ncclSend(second, 2, ncclInt32, 1, comms[0], nullptr) == ncclSuccess);
  CHECK(ncclSend(&to_itself, 1, ncclInt32, 1, comms[1], nullptr) == ncclSuccess);
  CHECK(ncclRecv(&got_own, 1, ncclInt32, 1, comms[1], nullptr) == ncclSuccess);
  CHECK(got_first + got_second[0] + got_own == 0);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(got_first == 5);
  CHECK(got_second[0] == 6);
  CHECK(got_second[1] == 7);
  CHECK(got_own == 8);
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
}

TEST_CASE("a send and its receive wait for each other, and fail on both ranks if their sizes differ") {
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  std::thread sender([&] {
    const char sent[2] = {3, 4};
    CHECK(ncclSend(sent, 2, ncclInt8, 1, comms[0], nullptr) == ncclSuccess);
    CHECK(ncclSend(sent, 2, ncclInt8, 1, comms[0], nullptr) == ncclInvalidArgument);
  });
  char got[3] = {0, 0, 9};
  CHECK(ncclRecv(got, 2, ncclInt8, 0, comms[1], nullptr) == ncclSuccess);
  CHECK(got[0] == 3);
  CHECK(got[1] == 4);
  CHECK(ncclRecv(got, 3, ncclInt8, 0, comms[1], nullptr) == ncclInvalidArgument);
  CHECK(got[2] == 9);
  sender.join();
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
}

TEST_CASE("a group with a rejected call is not executed") {
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  const char sent = 1;
  char got = 0;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclSend(&sent, 1, ncclInt8, 0, comm, nullptr) == ncclSuccess);
  CHECK(ncclRecv(&got, 1, ncclInt8, 0, comm, nullptr) == ncclSuccess);
  CHECK(ncclSend(&sent, 1, ncclInt8, 1, comm, nullptr) == ncclInvalidArgument);  // there is no rank 1
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(got == 0);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  ncclCommDestroy(comm);
}

TEST_CASE("one thread can manage all ranks with groups of calls") {
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  int sent[2] = {5, 7}, first[2][2], second[2][2];
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    CHECK(ncclAllGather(&sent[r], first[r], 1, ncclInt32, comms[r], nullptr) == ncclSuccess);
    CHECK(ncclAllGather(&sent[r], second[r], 1, ncclInt32, comms[r], nullptr) == ncclSuccess);
  }
  CHECK(ncclGroupEnd() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    CHECK(first[r][0] == 5);
    CHECK(first[r][1] == 7);
    CHECK(second[r][1] == 7);
    ncclCommDestroy(comms[r]);
  }
}
