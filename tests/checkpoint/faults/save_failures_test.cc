// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Makes each file call of a save fail with each possible error.
#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>

#include "tests/checkpoint/faults/failing.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Returns the number of the call that publishes the new checkpoint: the first fsync after the rename of the index. If a
// later call fails, the save still succeeds. Returns INT64_MAX for the calls of a rank that publishes nothing.
int64_t PublishedBy(const std::vector<FileCall>& calls) {
  const auto renamed = std::find_if(calls.begin(), calls.end(), [](const FileCall& call) {
    return call.name == "rename" && call.to.ends_with(".json");
  });
  const auto synced = std::find_if(renamed, calls.end(), [](const FileCall& call) { return call.name == "fsync"; });
  return synced == calls.end() ? INT64_MAX : synced->number;
}

// Returns whether the save succeeds although this call fails with this error. There are four such cases: the call comes
// after publishing, is only a hint to the system, is retried because it was interrupted, or closes a file that the save
// did not create.
bool IsHarmless(const FileCall& call, const std::vector<FileCall>& calls, int error) {
  if (call.number > PublishedBy(calls) || call.name == "sync_file_range") return true;
  if (error == EINTR) return true;
  if (call.name != "close") return false;
  const auto opened = std::find_if(calls.rend() - call.number, calls.rend(), [&](const FileCall& earlier) {
    return earlier.name == "open" && earlier.path == call.path;
  });
  return !opened->creates;
}

// Checks that a save failed with an error about this call and left only the older checkpoint.
void CheckFailedSave(Saves* saves, const FileCall& call, int error) {
  CheckFailed(&saves->job, SHAMPOO_E_IO, {call.path, ReasonOf(error)});
  CHECK(saves->HasOlderAlone());
  CHECK(saves->Loads(saves->older));
}

TEST_CASE("a save with one failed file call succeeds or leaves the older checkpoint and no other files") {
  Saves saves(true);
  const int descriptors = OpenDescriptors();
  ForEachCall(&saves, [&](int rank, const FileCall& call, const std::vector<FileCall>& calls) {
    for (const int error : ErrorsOf(call)) {
      CAPTURE(ReasonOf(error));
      saves.Reset();
      saves.job.WatchFiles(rank, FailAt(call.number, {.error = error}));
      saves.Save();
      if (IsHarmless(call, calls, error)) {
        CHECK_MESSAGE(saves.job.All(SHAMPOO_OK), saves.job.Errors());
        CHECK(saves.Loads(saves.newer));
      } else {
        CheckFailedSave(&saves, call, error);
      }
      saves.CheckNextSave();
      CHECK(OpenDescriptors() == descriptors);
    }
  });
}

TEST_CASE("a save continues after a short write or read, and fails after a write that returns 0") {
  Saves saves;
  for (const int rank : {0, 1}) {
    for (const size_t max_bytes : {size_t{1}, size_t{700}}) {
      int64_t cut = 0;
      saves.Reset();
      saves.job.WatchFiles(rank, [&](const FileCall& call) {
        cut += call.bytes > max_bytes ? 1 : 0;
        return FileFault{.max_bytes = max_bytes};
      });
      saves.Save();
      CHECK_MESSAGE(saves.job.All(SHAMPOO_OK), saves.job.Errors());
      CHECK(cut > 0);
      CHECK(saves.Loads(saves.newer));
    }
    const std::vector<FileCall> calls = saves.Calls(rank);
    for (const FileCall& call : calls) {
      if (call.name != "pwrite") continue;
      saves.Reset();
      saves.job.WatchFiles(rank, FailAt(call.number, {.returns_zero = true}));
      saves.Save();
      CheckFailedSave(&saves, call, ENOSPC);
    }
  }
}

// For each file call of a save, makes a save in which the disk is full from this call on: calls that need space fail.
TEST_CASE("a save fails if the disk becomes full, and the next save succeeds when there is space") {
  Saves saves;
  ForEachCall(&saves, [&](int rank, const FileCall& first, const std::vector<FileCall>& calls) {
    bool failed = false;
    saves.job.WatchFiles(rank, [&](const FileCall& call) {
      const bool takes_room = call.creates || call.name == "pwrite" || call.name == "rename" || call.name == "fsync";
      if (call.number < first.number || !takes_room) return FileFault();
      failed = failed || call.number <= PublishedBy(calls);
      return FileFault{.error = ENOSPC};
    });
    saves.Save();
    CHECK_MESSAGE(saves.job.All(failed ? SHAMPOO_E_IO : SHAMPOO_OK), saves.job.Errors());
    if (failed) CHECK(saves.HasOlderAlone());
    CHECK(saves.Loads(failed ? saves.older : saves.newer));
    saves.CheckNextSave();
  });
}

// For each file call of a save, makes a save in which this call and all later calls of its rank fail. The rank
// then cannot remove its files. If the index already has its final name, the newer checkpoint is complete, and the save
// succeeds. Otherwise the save fails.
TEST_CASE("a disk that disappears during a save leaves the older checkpoint or the newer one") {
  Saves saves;
  const int descriptors = OpenDescriptors();
  ForEachCall(&saves, [&](int rank, const FileCall& first, const std::vector<FileCall>& calls) {
    saves.job.WatchFiles(
        rank, [&](const FileCall& call) { return FileFault{.error = call.number < first.number ? 0 : EIO}; });
    saves.Save();
    const bool ok = saves.job.All(SHAMPOO_OK);
    CHECK_MESSAGE((ok || saves.job.All(SHAMPOO_E_IO)), saves.job.Errors());
    if (first.number > PublishedBy(calls)) CHECK(ok);
    CHECK(saves.Loads(ok ? saves.newer : saves.older));
    saves.CheckNextSave();
    CHECK(OpenDescriptors() == descriptors);
  });
}

}  // namespace
}  // namespace shampoo_test
