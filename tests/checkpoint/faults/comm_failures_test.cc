// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of saves and loads in which one collective fails or delivers a wrong number.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "tests/capture.h"
#include "tests/checkpoint/faults/failing.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

struct CommFault {
  const char* what;
  bool after;       // whether a faulty rank fails after the exchange, instead of before it
  bool all;         // whether all ranks are faulty, instead of one rank
  bool with_abort;  // whether the communicator has abort(); without abort(), the other rank waits until a timeout
};
constexpr CommFault kCommFaults[] = {{"on all ranks", false, true, false},
                                     {"on all ranks, after the exchange", true, true, false},
                                     {"on one rank", false, false, true},
                                     {"on one rank, after the exchange", true, false, true},
                                     {"on one rank, without abort", false, false, false},
                                     {"on one rank, after the exchange, without abort", true, false, false}};

// Makes collective `number` of the job fail on `rank` or, if kind.all is set, on all ranks.
void Arm(SavingJob* job, const CommFault& kind, int rank, int64_t number) {
  job->NewComm(kind.with_abort);
  // The timeout is long if no rank is expected to time out.
  job->comm().patience = std::chrono::milliseconds(kind.all || kind.with_abort ? 20000 : 20);
  (kind.after ? job->comm().after : job->comm().before) = [=](int own, int64_t call) {
    return (kind.all || own == rank) && call == number ? 7 : 0;
  };
}

// Checks that no rank timed out unexpectedly, that at least one rank failed, and that each failed rank returned
// SHAMPOO_E_COMM.
void CheckStatuses(SavingJob* job, const CommFault& kind) {
  if (kind.all || kind.with_abort) CHECK(job->comm().timeouts() == 0);
  for (int rank = 0; rank < job->world(); ++rank) {
    const shampoo_status status = (*job)[rank].status;
    CHECK_MESSAGE((status == SHAMPOO_OK || status == SHAMPOO_E_COMM), job->Errors());
  }
  CHECK(!job->All(SHAMPOO_OK));
}

template <typename Check>
void ForEachFault(int64_t calls, Check&& check) {
  for (const CommFault& kind : kCommFaults) {
    for (const int rank : {0, 1}) {
      if (kind.all && rank > 0) continue;
      for (int64_t number = 1; number <= calls; ++number) {
        CAPTURE_ALL(kind.what, rank, number);
        check(kind, rank, number);
      }
    }
  }
}

// Checks that each rank has the states `loaded` if its load succeeded, and the states `before` otherwise. Returns the
// number of ranks whose load succeeded.
int CheckLoadedOrUnchanged(SavingJob* job, const std::vector<Bytes>& loaded, const std::vector<Bytes>& before) {
  int successes = 0;
  const std::vector<Bytes> now = job->States();
  for (size_t rank = 0; rank < now.size(); ++rank) {
    const bool ok = (*job)[static_cast<int>(rank)].status == SHAMPOO_OK;
    CHECK(now[rank] == (ok ? loaded : before)[rank]);
    successes += ok ? 1 : 0;
  }
  return successes;
}

// Returns the number of collectives in work(), which is a save or a load of the job.
int64_t Collectives(SavingJob* job, const std::function<void()>& work) {
  job->NewComm();
  work();
  REQUIRE_MESSAGE(job->All(SHAMPOO_OK), job->Errors());
  REQUIRE(job->comm().calls(0) > 5);
  return job->comm().calls(0);
}

// A number that a rank receives instead of the number that the other rank has sent.
struct WrongNumber {
  int64_t call;  // number of the collective, counted from 1
  size_t at;     // offset in the bytes that the other rank has sent
  int64_t value;
};

// Returns the wrong numbers to test in each collective of work(), which is a save or a load. They replace numbers at
// the start of the bytes that a rank sends, where ranks send sizes, counts, codes and checksums.
std::vector<WrongNumber> WrongNumbers(SavingJob* job, const std::function<void()>& work) {
  std::vector<WrongNumber> numbers;
  job->NewComm();
  job->comm().change = [&numbers](int rank, int64_t call, char*, size_t bytes) {
    if (rank != 0) return;
    constexpr size_t kSegmentOfOneNumber = 64;
    const size_t used_bytes = bytes / 2 == kSegmentOfOneNumber ? 8 : std::min<size_t>(bytes / 2, 24);
    for (size_t at = 0; at + 8 <= used_bytes; at += 8) {
      for (const int64_t value : {int64_t{-1}, INT64_MAX, int64_t{1} << 50, int64_t{1} << 32, int64_t{5}}) {
        numbers.push_back({call, at, value});
      }
    }
  };
  work();
  job->comm().change = nullptr;
  REQUIRE_MESSAGE(job->All(SHAMPOO_OK), job->Errors());
  REQUIRE(numbers.size() > 50);
  return numbers;
}

// Replaces a number that `rank` receives by the wrong number. If `rank` is 2, does this on both ranks.
void Arm(SavingJob* job, const WrongNumber& number, int rank) {
  job->NewComm(true);
  job->comm().patience = std::chrono::milliseconds(200);  // how long a rank waits for a rank that has returned early
  job->comm().change = [=](int own, int64_t call, char* received, size_t bytes) {
    if (call != number.call || (rank != 2 && own != rank)) return;
    std::memcpy(received + (own == 0 ? bytes / 2 : 0) + number.at, &number.value, sizeof number.value);
  };
}

// Checks that no rank returned SHAMPOO_E_INTERNAL, SHAMPOO_E_NOMEM or an unknown status code. Checks that an error
// about an invalid number has the status SHAMPOO_E_COMM and recommends the same build on all ranks.
void CheckStatuses(SavingJob* job) {
  for (int rank = 0; rank < job->world(); ++rank) {
    const auto& [status, error] = std::tie((*job)[rank].status, (*job)[rank].error);
    CHECK_MESSAGE(status != SHAMPOO_E_INTERNAL, job->Errors());
    CHECK_MESSAGE(status != SHAMPOO_E_NOMEM, job->Errors());
    CHECK_MESSAGE(std::string(shampoo_status_name(status)) != "unknown status", job->Errors());
    CHECK_MESSAGE(error.empty() == (status == SHAMPOO_OK), job->Errors());
    if (!Has(error, "received an invalid")) continue;
    CHECK_MESSAGE(status == SHAMPOO_E_COMM, job->Errors());
    CHECK_MESSAGE(Has(error, "same build of libshampoo"), job->Errors());
  }
}

TEST_CASE(
    "the older or the new checkpoint can be loaded after one rank received a wrong number in a collective of a save") {
  Saves saves;
  int invalid = 0;
  int agreed = 0;
  for (const WrongNumber& number : WrongNumbers(&saves.job, [&] { saves.Save(); })) {
    for (const int rank : {0, 1, 2}) {
      CAPTURE_ALL(number.call, number.at, number.value, rank);
      saves.Reset();
      Arm(&saves.job, number, rank);
      saves.Save();
      CheckStatuses(&saves.job);
      invalid += Has(saves.job.Errors(), "received an invalid") ? 1 : 0;
      agreed += Has(saves.job.Errors(), "received an invalid") && saves.job.SameError() ? 1 : 0;
      if (rank != 2) CHECK(saves.Loads(saves.HasNewer() ? saves.newer : saves.older));
    }
  }
  CHECK(invalid > 50);
  CHECK(agreed > 10);
  saves.Reset();
  saves.CheckNextSave();
}

TEST_CASE(
    "each rank has its old state or the state of the checkpoint after a wrong number in any collective of a load") {
  Saves saves;
  SavingJob alike;
  alike.StepTo(5);
  int invalid = 0;
  for (const WrongNumber& number : WrongNumbers(&alike, [&] { alike.Load(saves.directory); })) {
    for (const int rank : {0, 1, 2}) {
      CAPTURE_ALL(number.call, number.at, number.value, rank);
      SavingJob job;
      job.StepTo(5);
      const std::vector<Bytes> before = job.States();
      Arm(&job, number, rank);
      job.Load(saves.directory);
      CheckStatuses(&job);
      invalid += Has(job.Errors(), "received an invalid") ? 1 : 0;
      CheckLoadedOrUnchanged(&job, saves.older, before);
    }
  }
  CHECK(invalid > 20);
}

TEST_CASE("the older or the new checkpoint can be loaded after any collective of a save has failed" *
          doctest::test_suite("long")) {
  Saves saves;
  const int64_t calls = Collectives(&saves.job, [&] { saves.Save(); });
  int newer_ones = 0;
  ForEachFault(calls, [&](const CommFault& kind, int rank, int64_t number) {
    saves.Reset();
    Arm(&saves.job, kind, rank, number);
    saves.Save();
    CheckStatuses(&saves.job, kind);
    // If the last collective fails on one rank, the save may still have succeeded on the other rank.
    const bool any_saved = saves.job[0].status == SHAMPOO_OK || saves.job[1].status == SHAMPOO_OK;
    const bool is_newer = saves.HasNewer();
    if (any_saved) CHECK(is_newer);
    newer_ones += is_newer ? 1 : 0;
    CHECK(saves.Loads(is_newer ? saves.newer : saves.older));
    // A communicator that has failed once fails in all later calls.
    saves.Save();
    CHECK_MESSAGE(!saves.job.All(SHAMPOO_OK), saves.job.Errors());
    saves.CheckNextSave();
  });
  CHECK(newer_ones > 0);
}

TEST_CASE("each rank has its old state or the state of the checkpoint after any collective of a load has failed" *
          doctest::test_suite("long")) {
  Saves saves;
  for (const int64_t steps : {0, 5}) {
    SavingJob alike;
    alike.StepTo(steps);
    const std::vector<Bytes> before = alike.States();
    const int64_t calls = Collectives(&alike, [&] { alike.Load(saves.directory); });
    int loaded = 0;
    ForEachFault(calls, [&](const CommFault& kind, int rank, int64_t number) {
      SavingJob job;
      job.StepTo(steps);
      Arm(&job, kind, rank, number);
      job.Load(saves.directory);
      CheckStatuses(&job, kind);
      loaded += CheckLoadedOrUnchanged(&job, saves.older, before);
      job.NewComm();
      RequireLoad(&job, saves.directory);
      CHECK(job.States() == saves.older);
    });
    CHECK(loaded > 0);
  }
}

}  // namespace
}  // namespace shampoo_test
