// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests a rank that receives impossible numbers while ranks agree on a status or compare plans. Each rank describes its
// plan in lines of text, the plan lines.
#include <random>

#include "core/comm/agreement.h"
#include "tests/core/comm_test_util.h"

namespace shampoo {
namespace {

const std::vector<std::string> kLines = {"one", "two", "three"};

TEST_CASE("if a rank receives an unknown status code, it returns SHAMPOO_E_COMM and calls abort") {
  for (const int64_t code : {int64_t{-1}, int64_t{10}, int64_t{255}, int64_t{1} << 32, INT64_MIN, INT64_MAX}) {
    for (const int64_t call : {1, 2}) {  // in call 2, ranks exchange whether they have memory for error messages
      CAPTURE(code);
      CAPTURE(call);
      MirrorComm comm(3, 1);
      comm.change = [&](int64_t at, int from, char* segment, size_t) {
        if (at == call && from == 2) Put(segment, 0, code);
      };
      const Status status = AgreeOnStatus(comm.get(), call == 1 ? Status() : Invalid("something"));
      CheckCommError(status, Cat("rank 1 received an invalid status code from rank 2: ", code, "; expected 0 to 9"));
      CHECK(comm.calls == call);
      CHECK(comm.aborts == 1);
      CHECK(comm.get()->failed());
    }
  }
}

TEST_CASE(
    "a communicator fails if the number that it returns for this rank is not the number that this rank has sent") {
  MirrorComm comm(3, 1);
  comm.PutFrom(1, 0, int64_t{7});
  CheckCommError(AgreeOnStatus(comm.get(), {}),
                 "rank 1 received 7 at its own position; expected 0, the number that it sent");
  CHECK(comm.aborts == 1);
}

TEST_CASE("if a rank receives an invalid number of plan lines, it returns SHAMPOO_E_COMM") {
  for (const int64_t count : {int64_t{-1}, INT64_MIN, INT64_MAX, (int64_t{1} << 40) + 1}) {
    CAPTURE(count);
    MirrorComm comm;
    comm.change = [&](int64_t call, int from, char* segment, size_t) {
      if (from == 1 && call <= 2) Put(segment, 0, call == 1 ? int64_t{12345} : count);
    };
    CheckCommError(CompareLines(comm.get(), kLines),
                   Cat("received an invalid number of plan lines from rank 1: ", count));
    CHECK(comm.aborts == 1);
  }
}

TEST_CASE("if another rank has a different number of plan lines, no memory is accessed out of bounds") {
  for (const int64_t count : {int64_t{0}, int64_t{2}, int64_t{4}, int64_t{1000}, int64_t{1} << 40}) {
    for (const bool differs : {false, true}) {
      CAPTURE(count);
      CAPTURE(differs);
      MirrorComm comm;
      // In call 1, the other rank sends a different hash of all lines. If `differs` is true, it also sends different
      // hashes in later calls. Otherwise, it sends equal hashes in later calls, which is a contradiction.
      comm.change = [&](int64_t call, int from, char* segment, size_t bytes) {
        if (from != 1 || bytes != 64) return;
        if (call == 2) return Put(segment, 0, count);
        int64_t sent = 0;
        std::memcpy(&sent, segment, sizeof sent);
        if (sent == 0) return;  // not a hash, but a status code: the rank has memory for the lines that differ
        if (call == 1 || differs) Put(segment, 0, int64_t{12345} + call);
      };
      const Status status = CompareLines(comm.get(), kLines);
      if (differs) {
        CHECK_MESSAGE(status.code() == Code::kInvalid, status.message());
        CHECK_MESSAGE(status.message().find("the plans or communicators differ") == 0, status.message());
      } else {
        CheckCommError(status, "the hashes of the plans differ between ranks, but rank 0 then received equal values");
        CHECK(comm.aborts == 1);
      }
    }
  }
}

TEST_CASE("the comparison of plans ends, whatever numbers a rank receives") {
  std::mt19937_64 random(3);
  int different = 0;
  int failed = 0;
  for (int i = 0; i < 3000; ++i) {
    MirrorComm comm(static_cast<int>(2 + random() % 3));
    const uint64_t one_in = 1 + random() % 4;
    comm.change = [&](int64_t call, int from, char* segment, size_t bytes) {
      const bool is_own = from == 0;
      if (is_own ? random() % 50 != 0 : call > 1 && random() % one_in != 0) return;
      const int64_t numbers[] = {static_cast<int64_t>(random()), static_cast<int64_t>(random() % 8), 1 << 20, -1};
      Put(segment, 0, numbers[random() % (random() % 8 == 0 ? 4 : 3)]);
      if (random() % 8 == 0) segment[random() % bytes] = static_cast<char>(random());
    };
    const std::vector<std::string> lines(random() % 20, "line");
    const Status status = CompareLines(comm.get(), lines);
    // CompareLines() returns kNoMemory if a random number means that a rank has no memory for the lines that differ.
    CHECK((status.code() == Code::kInvalid || status.code() == Code::kComm || status.code() == Code::kNoMemory ||
           status.ok()));
    different += status.code() == Code::kInvalid ? 1 : 0;
    failed += status.code() == Code::kComm ? 1 : 0;
    CHECK(comm.calls < 20);
  }
  CHECK(different > 100);
  CHECK(failed > 100);
}

TEST_CASE("a string that is too long to send is truncated between two characters") {
  MirrorComm comm;
  std::vector<std::string> texts;
  std::string own = "x";
  while (own.size() < 2 * kTextBytes) own += "ä";
  REQUIRE(GatherTexts(comm.get(), own, &texts).ok());
  CHECK(texts[1] == own.substr(0, kTextBytes - 1));
  own += "x";
  own.insert(0, "x");
  REQUIRE(GatherTexts(comm.get(), own, &texts).ok());
  CHECK(texts[1] == own.substr(0, kTextBytes - 2));
}

}  // namespace
}  // namespace shampoo
