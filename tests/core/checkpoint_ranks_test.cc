// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks what a rank does if it receives impossible numbers from other ranks. shampoo_save() and shampoo_load() use
// the two operations that are tested here. In Ranks::Collect(), rank 0 collects texts, such as descriptions of
// parameters, from all ranks. In FindDuplicates(), ranks find the items (see duplicates.h) that several ranks have.
#include <random>

#include "core/checkpoint/description.h"
#include "core/checkpoint/duplicates.h"
#include "core/checkpoint/ranks.h"
#include "tests/core/comm_test_util.h"

namespace shampoo {
namespace {

constexpr int64_t kImpossible[] = {-1, INT64_MIN, INT64_MAX, int64_t{1} << 50};

struct Collected {
  Status status;  // the result of Ranks::Collect
  Status own;     // the first error on this rank that did not stop Collect()
  std::vector<std::string> texts;
};

Collected Collect(const MirrorComm& comm, size_t count = 3) {
  Collected collected;
  const auto make = [](size_t i) { return "text " + std::string(i, 'x'); };
  const auto take = [&](int, std::string text) { collected.texts.push_back(std::move(text)); };
  collected.status = CommRanks(comm.get()).Collect(count, make, take, &collected.own);
  return collected;
}

// Returns whether a segment (the data that one rank sends in a collective) of this size belongs to a round. A round is
// one of the collectives in which ranks send texts. Such a segment has a header and then texts. The length of each text
// precedes the text.
bool IsRound(size_t bytes) { return bytes > 4096; }

TEST_CASE("rank 0 collects the texts of all ranks") {
  const MirrorComm comm(3);
  const Collected collected = Collect(comm);
  CHECK(collected.status.ok());
  CHECK(collected.own.ok());
  CHECK(collected.texts.size() == 9);
  CHECK(collected.texts[8] == "text xx");
}

TEST_CASE("an invalid length of the longest text is rejected before memory is allocated") {
  for (const int64_t length : kImpossible) {
    CAPTURE(length);
    MirrorComm comm;
    comm.change = [&](int64_t, int from, char* segment, size_t bytes) {
      if (from == 1 && bytes == sizeof length) Put(segment, 0, length);
    };
    const Collected collected = Collect(comm);
    CheckCommError(collected.status, Cat("received an invalid message length from rank 1: ", length));
    // All ranks receive the same length and fail, so abort is not called.
    CHECK(comm.aborts == 0);
  }
}

TEST_CASE(
    "a rank that receives an invalid number of bytes or an invalid text length completes the collection with an "
    "error") {
  for (const int64_t number : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 50, int64_t{2} << 20}) {
    // The number of bytes of all texts is at offset 0, and the length of the first text is at offset 16.
    for (const size_t at : {0, 16}) {
      CAPTURE(number);
      CAPTURE(at);
      MirrorComm comm;
      comm.change = [&](int64_t, int from, char* segment, size_t bytes) {
        if (from == 1 && IsRound(bytes)) Put(segment, at, number);
      };
      const Collected collected = Collect(comm);
      CHECK(collected.status.ok());
      CheckCommError(collected.own, Cat("received an invalid ", at == 0 ? "number of message bytes" : "message length",
                                        " from rank 1: ", number));
      CHECK(collected.texts.size() == 3);  // only the texts of this rank
    }
  }
}

TEST_CASE("an invalid number of remaining texts ends the collection") {
  for (const int64_t left : kImpossible) {
    CAPTURE(left);
    MirrorComm comm;
    comm.change = [&](int64_t, int from, char* segment, size_t bytes) {
      if (from == 1 && IsRound(bytes)) Put(segment, 8, left);
    };
    CheckCommError(Collect(comm).status, Cat("received an invalid number of remaining messages from rank 1: ", left));
    CHECK(comm.aborts == 1);
  }
}

TEST_CASE("a number of remaining texts that does not decrease ends the collection") {
  MirrorComm comm;
  int rounds = 0;
  comm.change = [&](int64_t, int from, char* segment, size_t bytes) {
    if (from != 1 || !IsRound(bytes)) return;
    ++rounds;
    Put(segment, 8, int64_t{5});
  };
  CheckCommError(Collect(comm).status, "received an invalid number of remaining messages from rank 1: 5");
  CHECK(rounds == 2);
  CHECK(comm.aborts == 1);
}

const std::vector<Item> kItems = {{11, 1}, {22, 2}, {33, 3}};

TEST_CASE("an invalid number of saved items is rejected on all ranks") {
  for (const int64_t count : kImpossible) {
    CAPTURE(count);
    MirrorComm comm(3, 2);
    comm.change = [&](int64_t, int from, char* segment, size_t bytes) {
      if (from == 0 && bytes == sizeof count) Put(segment, 0, count);
    };
    Duplicates duplicates;
    CheckCommError(FindDuplicates(CommRanks(comm.get()), kItems, &duplicates),
                   Cat("rank 2 received an invalid number of saved items from rank 0: ", count));
    CHECK(comm.aborts == 0);
  }
}

TEST_CASE("a wrong number of saved items, from this or another rank, causes no access out of bounds") {
  for (const int64_t count : {0, 1, 2, 5, 100000}) {
    for (const int from : {0, 1, 2}) {
      CAPTURE(count);
      CAPTURE(from);
      MirrorComm comm(3, 2);
      comm.change = [&](int64_t, int rank, char* segment, size_t bytes) {
        if (rank == from && bytes == sizeof count) Put<int64_t>(segment, 0, count);
      };
      Duplicates duplicates;
      CHECK(FindDuplicates(CommRanks(comm.get()), kItems, &duplicates).ok());
      CHECK(duplicates.is_duplicate.size() == kItems.size());
    }
  }
}

TEST_CASE("Collect and FindDuplicates return without an access out of bounds, whatever bytes they receive") {
  std::mt19937_64 random(5);
  int failures = 0;
  for (int i = 0; i < 1500; ++i) {
    MirrorComm comm(static_cast<int>(2 + random() % 3), 0);
    const uint64_t one_in = 1 + random() % 6;
    comm.change = [&](int64_t call, int, char* segment, size_t bytes) {
      if (call > 30 || random() % one_in != 0) return;
      const int64_t numbers[] = {static_cast<int64_t>(random()), static_cast<int64_t>(random() % 100), -1, 1 << 20, 8};
      const size_t at = random() % std::min<size_t>(bytes, 100);
      Put(segment, std::min(at, bytes - 8), numbers[random() % std::size(numbers)]);
    };
    const Collected collected = Collect(comm, random() % 5);
    failures += collected.status.ok() && collected.own.ok() ? 0 : 1;
    if (comm.get()->failed()) continue;
    Duplicates duplicates;
    const Status found = FindDuplicates(CommRanks(comm.get()), kItems, &duplicates);
    CHECK((found.ok() || found.code() != Code::kInternal));
    failures += found.ok() ? 0 : 1;
  }
  CHECK(failures > 200);
}

TEST_CASE("an unreadable description from another rank is reported as a failure of the communicator") {
  const std::string group = R"({"optimizer":0,"group":{"step":1,"config":{}}})";
  const std::string param = R"({"optimizer":0,"param":{"name":"w","shape":[2],"dtype":"F32","group":0}})";
  Descriptions good;
  good.Add(0, group);
  good.Add(0, param);
  CHECK_MESSAGE(good.status().ok(), good.status().message());
  const std::string bad[] = {"",
                             "{",
                             "[]",
                             std::string(10, '\0'),
                             R"({"optimizer":0})",
                             R"({"optimizer":"x","group":{"step":1,"config":{}}})",
                             R"({"optimizer":0,"group":{"step":-1,"config":{}}})",
                             R"({"optimizer":0,"param":{"name":"w","shape":[-2],"dtype":"F32","group":0}})",
                             R"({"optimizer":0,"param":{"name":"w","shape":[2],"dtype":"F32","group":1}})",
                             R"({"optimizer":0,"param":{"name":"w","shape":[2],"dtype":"F32","group":1000000000}})",
                             R"({"optimizer":1,"param":{"name":"w","shape":[2],"dtype":"F32","group":0}})"};
  for (const std::string& text : bad) {
    CAPTURE(text);
    Descriptions descriptions;
    descriptions.Add(0, group);
    descriptions.Add(3, group);
    descriptions.Add(3, text);
    descriptions.Add(3, param);
    CheckCommError(descriptions.status(), "rank 3 sent an unreadable description");
  }
}

}  // namespace
}  // namespace shampoo
