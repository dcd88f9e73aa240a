// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Makes allocations of one rank fail during a save or a load. In each mode (see kModes), a different set of
// allocations fails. Checks that all ranks return the same code, and that no rank times out.
#include <doctest/doctest.h>

#include <cstdint>

#include "tests/capture.h"
#include "tests/checkpoint/faults/failing.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

struct Mode {
  const char* what;
  int64_t count;
  size_t least_bytes;
};
constexpr Mode kModes[] = {{"one allocation", 1, 0},
                           {"an allocation and all later ones", INT64_MAX, 0},
                           {"a large allocation and all later large ones", INT64_MAX, 2048}};

// Makes allocations of one rank fail during the next saves or loads of the job. `first` is the number of the first
// allocation that fails. Each save or load sets *failed to whether an allocation failed.
void FailAllocations(SavingJob* job, int rank, const Mode& mode, int64_t first, bool* failed) {
  *failed = false;
  job->comm().patience = std::chrono::seconds(5);
  job->around = [=](int own, const std::function<void()>& call) {
    if (own != rank) return call();
    const AllocationWatch watch({.first = first, .count = mode.count, .least_bytes = mode.least_bytes});
    call();
    *failed = watch.has_failed();
  };
}

// Makes saves in each mode, with `first` (see FailAllocations) increased from save to save, until no allocation fails.
// The increase is `stride`, or 1 if only large allocations fail.
void FailSaves(int64_t stride) {
  Saves saves;
  const int descriptors = OpenDescriptors();
  for (const int rank : {0, 1}) {
    for (const Mode& mode : kModes) {
      int64_t live = 0;
      int successes = 0;
      bool failed = true;
      for (int64_t first = 1; failed; first += mode.least_bytes > 0 ? 1 : stride) {
        CAPTURE_ALL(rank, mode.what, first);
        saves.Reset();
        FailAllocations(&saves.job, rank, mode, first, &failed);
        saves.Save();
        saves.job.Undisturbed();
        REQUIRE_MESSAGE(saves.job.comm().timeouts() == 0, saves.job.Errors());
        const bool ok = saves.job.All(SHAMPOO_OK);
        successes += ok && failed ? 1 : 0;
        CHECK_MESSAGE((ok || saves.job.All(SHAMPOO_E_NOMEM)), saves.job.Errors());
        CHECK(saves.Loads(ok ? saves.newer : saves.older));
        if (!ok) CHECK_MESSAGE(saves.HasOlderAlone(), saves.Names());
        if (!ok) saves.CheckNextSave();
        CHECK(OpenDescriptors() == descriptors);
        // The first save may allocate memory that stays allocated, so the test sets `live` after the second save.
        if (first > 1 && live == 0) live = LiveAllocations();
      }
      CHECK(successes < 200);
      saves.Reset();
      CHECK(LiveAllocations() - live < 10);
    }
  }
}

// Makes loads in the same way as FailSaves makes saves.
void FailLoads(int64_t stride) {
  Saves saves;
  const int descriptors = OpenDescriptors();
  for (const int64_t steps : {0, 5}) {
    for (const int rank : {0, 1}) {
      for (const Mode& mode : kModes) {
        SavingJob job;
        job.StepTo(steps);
        std::vector<Bytes> before = job.Everything();
        bool failed = true;
        for (int64_t first = 1; failed; first += mode.least_bytes > 0 ? 1 : stride) {
          CAPTURE_ALL(steps, rank, mode.what, first);
          FailAllocations(&job, rank, mode, first, &failed);
          job.Load(saves.directory);
          job.Undisturbed();
          REQUIRE_MESSAGE(job.comm().timeouts() == 0, job.Errors());
          const bool ok = job.All(SHAMPOO_OK);
          CHECK_MESSAGE((ok || job.All(SHAMPOO_E_NOMEM)), job.Errors());
          if (ok) {
            CHECK(job.States() == saves.older);
            before = job.Everything();
          } else {
            CHECK(job.Everything() == before);
          }
          CHECK(OpenDescriptors() == descriptors);
        }
        RequireLoad(&job, saves.directory);
        CHECK(job.States() == saves.older);
      }
    }
  }
}

TEST_CASE("a save that runs out of memory succeeds on all ranks or leaves the older checkpoint") { FailSaves(11); }
TEST_CASE("a load that runs out of memory succeeds on all ranks or leaves the optimizer unchanged") { FailLoads(11); }

TEST_SUITE("long") {
  TEST_CASE("if any allocation of a save fails, the save succeeds or leaves the older checkpoint") { FailSaves(1); }
  TEST_CASE("if any allocation of a load fails, the load succeeds or leaves the optimizer unchanged") { FailLoads(1); }
}

}  // namespace
}  // namespace shampoo_test
