// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that a process that is killed during a save leaves a complete checkpoint: the older one or the new one.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <new>
#include <random>
#include <thread>

#include "tests/checkpoint/faults/failing.h"
#include "tests/checkpoint/faults/processes.h"

namespace shampoo_test {
namespace {

using Clock = std::chrono::steady_clock;

TEST_CASE("a process that is killed at any file call of a save leaves the older checkpoint or the new one") {
  Saves saves(true);
  ForEachCall(&saves, [&](int rank, const FileCall& call, const std::vector<FileCall>& calls) {
    const auto renames_index = std::find_if(calls.begin(), calls.end(), [](const FileCall& one) {
      return one.name == "rename" && one.to.ends_with(".json");
    });
    REQUIRE((renames_index != calls.end()) == (rank == 0));
    // If half_done is true, the call writes half of its bytes, and the process is killed before the next file call.
    // Otherwise the process is killed before the call.
    for (const bool half_done : {false, true}) {
      if (half_done && call.name != "pwrite") continue;
      CAPTURE(half_done);
      saves.Reset();
      const auto die_here = [&](const FileCall& now) {
        if (half_done && now.number == call.number) return FileFault{.max_bytes = call.bytes / 2};
        if (now.number == call.number + (half_done ? 1 : 0)) Die();
        return FileFault();
      };
      const pid_t child = InChild([&] {
        saves.job.WatchFiles(rank, die_here);
        saves.Save();
      });
      CHECK(WasKilled(child));
      const bool is_newer = rank == 0 && call.number > renames_index->number;
      CHECK(saves.Loads(is_newer ? saves.newer : saves.older));
      saves.CheckNextSave();
    }
  });
}

// Progress that a child process reports through shared memory.
struct Progress {
  std::atomic<bool> saves{false};
  std::atomic<bool> has_saved{false};
};

class SharedProgress {
 public:
  SharedProgress()
      : memory_(mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    REQUIRE(memory_ != MAP_FAILED);
    progress_ = new (memory_) Progress;
  }
  ~SharedProgress() { munmap(memory_, sizeof(Progress)); }
  Progress* operator->() const { return progress_; }

 private:
  void* memory_;
  Progress* progress_;
};

// Saves in a child process, and kills the process after the delay. Returns false if the save had already finished.
bool KilledWhileItSaves(SavingJob* job, const std::string& directory, Clock::duration delay) {
  const SharedProgress progress;
  const pid_t child = InChild([&] {
    progress->saves = true;
    job->Save(directory);
    progress->has_saved = true;
    pause();
  });
  while (!progress->saves) std::this_thread::yield();
  std::this_thread::sleep_for(delay);
  kill(child, SIGKILL);
  CHECK(WasKilled(child));
  return !progress->has_saved;
}

// Kills `kills` saves, each at a random moment. The moments are spread over the time that a complete save takes.
void KillSaves(int kills, uint64_t seed) {
  const Scratch scratch(Scratch::On::kDisk);
  const std::string directory = scratch / "saves";
  SavingJob job(LargeSpec());
  SavingJob reader(LargeSpec());
  std::vector<Bytes> older;
  Clock::duration duration{};
  const auto save = [&] {
    const auto begin = Clock::now();
    job.Save(directory);
    duration = Clock::now() - begin;
    CHECK_MESSAGE(job.All(SHAMPOO_OK), job.Errors());
    CHECK(NamesIn(directory).size() == 3);  // the save has removed the files of killed saves
    older = job.States();
  };
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> within(0, 1);
  int killed = 0;
  int newer_ones = 0;
  job.StepTo(1);
  save();
  for (int attempt = 0; killed < kills && attempt < 5 * kills; ++attempt) {
    CAPTURE(attempt);
    job.StepTo(job.steps() + 1);
    const auto delay = std::chrono::duration_cast<Clock::duration>(duration * ((killed + within(random)) / kills));
    killed += KilledWhileItSaves(&job, directory, delay) ? 1 : 0;
    reader.Load(directory);
    CHECK_MESSAGE(reader.All(SHAMPOO_OK), reader.Errors());
    const std::vector<Bytes> loaded = reader.States();
    const bool is_newer = loaded == job.States();
    CHECK((is_newer || loaded == older));
    newer_ones += is_newer ? 1 : 0;
    save();
  }
  CHECK(killed == kills);
  std::printf("%d saves were killed; %d attempts, killed or finished, left the new checkpoint\n", killed, newer_ones);
}

TEST_CASE("4 saves that are killed at random moments leave the older checkpoint or the new one") { KillSaves(4, 1); }

TEST_SUITE("long") {
  TEST_CASE("200 saves that are killed at random moments leave the older checkpoint or the new one") {
    KillSaves(200, 2);
  }
}

}  // namespace
}  // namespace shampoo_test
