// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks when a failed load loses the state of an optimizer that has made steps. A load first reads and verifies all
// files. It then reads them again and overwrites the state. If the second reading fails, the load restores the state
// from a backup. A state of more than 24 MiB has no backup, so a failed second reading loses it. Steps then fail until
// another load succeeds.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "tests/checkpoint/faults/failing.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

constexpr int64_t kMaxBackedUp = int64_t{24} << 20;

RankSpec SpecOf(int64_t blocks) {
  RankSpec spec = LargeSpec();
  spec.params = {{"matrix", {256 * blocks, 256}}, {"vector", {5}}};
  return spec;
}

// Returns the number of a load's last pread call (see FileCall in file_calls.h).
int64_t LastRead(SavingJob* job, int rank, const std::string& directory) {
  int64_t last = 0;
  for (const FileCall& call : CallsOf(job, rank, [&] { job->Load(directory); })) {
    if (call.name == "pread") last = call.number;
  }
  return last;
}

void BindAnotherAndBack(SavingJob* job) {
  for (int rank = 0; rank < job->world(); ++rank) {
    const auto bytes = (static_cast<size_t>(job->StateBytes(rank)) + 255) / 256 * 256;
    const std::unique_ptr<void, void (*)(void*)> other(std::aligned_alloc(256, bytes), &std::free);
    REQUIRE(shampoo_optimizer_bind_state((*job)[rank].optimizer, other.get(), other.get()) == SHAMPOO_OK);
    REQUIRE(shampoo_optimizer_bind_state((*job)[rank].optimizer, nullptr, nullptr) == SHAMPOO_OK);
  }
}

TEST_CASE("a load that loses a large state makes steps fail until another load succeeds" *
          doctest::test_suite("long")) {
  struct Kind {
    int64_t blocks;
    bool lost[2];  // by rank: whether the state is too large for a backup
    int rank;      // the rank whose read fails
  };
  for (const Kind kind : {Kind{40, {true, true}, 0}, Kind{39, {true, false}, 1}, Kind{10, {false, false}, 1}}) {
    CAPTURE(kind.blocks);
    const RankSpec spec = SpecOf(kind.blocks);
    const Scratch scratch(Scratch::On::kDisk);
    SavingJob saved(spec);
    saved.StepTo(1);
    RequireSave(&saved, scratch / "saves");
    const std::vector<Bytes> loaded = saved.States();
    saved.StepTo(2);
    SavingJob job(spec);
    job.StepTo(1);
    const int64_t last = LastRead(&job, kind.rank, scratch / "saves");
    job.StepTo(2);
    const std::vector<Bytes> before = job.States();
    job.WatchFiles(kind.rank, FailAt(last, {.error = EIO}));
    job.Load(scratch / "saves");
    CheckFailed(&job, SHAMPOO_E_IO);
    job.Undisturbed();
    const std::vector<Bytes> now = job.States();
    for (const int of : {0, 1}) {
      CHECK((job.StateBytes(of) > kMaxBackedUp) == kind.lost[of]);
      CHECK((now[static_cast<size_t>(of)] != before[static_cast<size_t>(of)]) == kind.lost[of]);
    }
    for (int attempt = 0; attempt < 2 && kind.lost[0]; ++attempt) {
      job.TryStep();
      CHECK_MESSAGE(job.All(SHAMPOO_E_STATE), job.Errors());
      CHECK_MESSAGE(Has(job.Errors(), "load a checkpoint"), job.Errors());
      job.Save(scratch / "spoiled");
      CHECK_MESSAGE(job.All(SHAMPOO_E_STATE), job.Errors());
      BindAnotherAndBack(&job);  // does not restore the lost state: the second attempt fails, too
    }
    RequireLoad(&job, scratch / "saves");
    CHECK(job.States() == loaded);
    job.StepTo(2);
    CHECK_MESSAGE(job.All(SHAMPOO_OK), job.Errors());
    CHECK(job.States() == saved.States());
  }
}

}  // namespace
}  // namespace shampoo_test
