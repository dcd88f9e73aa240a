// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Makes each file call of a load fail with each possible error.
#include <doctest/doctest.h>

#include <cerrno>

#include "tests/capture.h"
#include "tests/checkpoint/faults/failing.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Returns SmallSpec() with other block sizes. A load then assembles each elementwise state from several blocks of the
// checkpoint.
RankSpec OtherBlocks() {
  RankSpec spec = SmallSpec();
  spec.keys[0] = {"max_preconditioner_dim", "5"};
  spec.keys.emplace_back("on_block_mismatch", "reset");
  return spec;
}

// Returns whether a load succeeds although this call fails with this error. A load retries interrupted calls. Because a
// load only reads files, it ignores a failed close.
bool IsHarmless(const FileCall& call, int error) { return error == EINTR || call.name == "close"; }

struct LoadingJob {
  const char* what;
  RankSpec spec;
  int64_t steps;  // number of steps before the load
};

const LoadingJob kLoadingJobs[] = {{"new", SmallSpec(), 0},
                                   {"stepped", SmallSpec(), 5},
                                   {"new, with other blocks", OtherBlocks(), 0},
                                   {"stepped, with other blocks", OtherBlocks(), 5}};

// Returns the states of a new job of this kind after a load without faults.
std::vector<Bytes> Loaded(const LoadingJob& kind, const std::string& directory) {
  SavingJob job(kind.spec);
  RequireLoad(&job, directory);
  return job.States();
}

TEST_CASE("a load with one failed file call succeeds or leaves the optimizer unchanged") {
  Saves saves;
  const int descriptors = OpenDescriptors();
  for (const LoadingJob& kind : kLoadingJobs) {
    const std::vector<Bytes> loaded = Loaded(kind, saves.directory);
    SavingJob job(kind.spec);
    job.StepTo(kind.steps);
    const std::vector<Bytes> before = job.Everything();
    for (const int rank : {0, 1}) {
      SavingJob alike(kind.spec);
      alike.StepTo(kind.steps);
      for (const FileCall& call : CallsOf(&alike, rank, [&] { alike.Load(saves.directory); })) {
        for (const int error : ErrorsOf(call)) {
          CAPTURE_ALL(kind.what, rank, Describe(call), ReasonOf(error));
          if (IsHarmless(call, error)) {
            SavingJob other(kind.spec);
            other.StepTo(kind.steps);
            other.WatchFiles(rank, FailAt(call.number, {.error = error}));
            RequireLoad(&other, saves.directory);
            CHECK(other.States() == loaded);
            continue;
          }
          job.WatchFiles(rank, FailAt(call.number, {.error = error}));
          job.Load(saves.directory);
          CheckFailed(&job, SHAMPOO_E_IO, {call.path, ReasonOf(error)});
          CHECK(job.Everything() == before);
        }
      }
    }
    job.Undisturbed();
    RequireLoad(&job, saves.directory);
    CHECK(job.States() == loaded);
  }
  CHECK(OpenDescriptors() == descriptors);
}

TEST_CASE("a load continues after a short read, and fails after a read that returns 0") {
  Saves saves;
  for (const LoadingJob& kind : kLoadingJobs) {
    const std::vector<Bytes> loaded = Loaded(kind, saves.directory);
    for (const size_t max_bytes : {size_t{1}, size_t{100}}) {
      CAPTURE(kind.what);
      int64_t cut = 0;
      SavingJob job(kind.spec);
      job.StepTo(kind.steps);
      const std::vector<Bytes> before = job.Everything();
      job.WatchFiles(1, [](const FileCall& call) { return FileFault{.returns_zero = call.name == "pread"}; });
      job.Load(saves.directory);
      CheckFailed(&job, SHAMPOO_E_IO, {"checkpoint-000001.json ends at byte 0"});
      CHECK(job.Everything() == before);
      job.WatchFiles(1, [&](const FileCall& call) {
        cut += call.bytes > max_bytes ? 1 : 0;
        return FileFault{.max_bytes = max_bytes};
      });
      RequireLoad(&job, saves.directory);
      CHECK(cut > 10);
      CHECK(job.States() == loaded);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
