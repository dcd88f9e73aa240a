// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests saves and loads by several ranks, and tests that a load that fails restores the previous states.
#include "tests/core/checkpoint_job.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/checkpoint/checkpoint_files.h"
#include "core/plan/block_place.h"
#include "tests/core/checkpoint_fixture.h"
#include "tests/core/log_capture.h"
#include "tests/core/remote_state.h"

namespace shampoo {
namespace {

bool HasEntry(StepFixture& rank, const std::string& key) {
  const auto entries = rank.state().entries();
  return std::any_of(entries.begin(), entries.end(), [&](const StateEntry& entry) { return entry.key == key; });
}

TEST_CASE("a checkpoint of two replicas restores any number of replicas, and each block is saved by its owner") {
  const TemporaryDirectory directory;
  CheckpointJob saved(2, SetupOfReplicas(kAllStates), directory.path());
  for (size_t rank = 0; rank < 2; ++rank) {
    FillStates(&saved[rank], 100 * static_cast<float>(rank) + 1);
    CheckOk(saved[rank].state().WriteSteps(0, 7));
  }
  CheckAllOk(saved.Save());
  CHECK(directory.Has(StatesName(1, 0, 2, 1)));
  CHECK(directory.Has(StatesName(1, 1, 2, 1)));
  for (const int world : {1, 2, 3}) {
    CAPTURE(world);
    CheckpointJob loaded(world, SetupOfReplicas(kAllStates), directory.path());
    CheckAllOk(loaded.Load());
    for (size_t rank = 0; rank < static_cast<size_t>(world); ++rank) {
      for (const StateEntry& entry : loaded[rank].state().entries()) {
        StepFixture& owner = saved[HasEntry(saved[0], entry.key) ? 0 : 1];
        CHECK_MESSAGE(std::memcmp(loaded[rank].StateOf(entry.key), owner.StateOf(entry.key),
                                  static_cast<size_t>(entry.span_bytes())) == 0,
                      entry.key);
      }
    }
  }
}

// Calls visit(element, 100 p + i) for each element of the state Block::iterate_offset of each block. p is the number of
// the parameter, and i is the position of the element in the parameter.
template <typename Visit>
void ForEachIterate(StepFixture* rank, Visit&& visit) {
  for (const Block& block : rank->plan().blocks) {
    auto* const elements = reinterpret_cast<float*>(rank->state().out() + block.iterate_offset.offset);
    const BlockPlace place = BlockPlace::Of(rank->plan().param(block).desc, block);
    ForEachRunOf(place, {0, place.elements()}, [&](int64_t in_block, int64_t in_param, int64_t count) {
      for (int64_t i = 0; i < count; ++i) visit(&elements[in_block + i], 100 * block.param + in_param + i);
    });
  }
}

TEST_CASE("a checkpoint of shards restores any number of shards, even if the new shards have other blocks") {
  const OptionKeys keys =
      "averaging=schedule_free max_preconditioner_dim=4 use_merge_dims=false on_block_mismatch=reset";
  const TemporaryDirectory directory;
  const LogCapture log;
  CheckpointJob saved(2, SetupOfShards(keys), directory.path());
  for (size_t rank = 0; rank < 2; ++rank) {
    ForEachIterate(&saved[rank], [](float* element, int64_t at) { *element = static_cast<float>(at); });
    for (const Block& block : saved[rank].plan().blocks) {
      *reinterpret_cast<double*>(saved[rank].state().out() + block.lr_sum.offset) = 2.5;
    }
    CheckOk(saved[rank].state().WriteSteps(0, 9));
  }
  CheckAllOk(saved.Save());
  for (const int world : {1, 2, 3, 4}) {
    CAPTURE(world);
    CheckpointJob loaded(world, SetupOfShards(keys), directory.path());
    CheckAllOk(loaded.Load());
    for (size_t rank = 0; rank < static_cast<size_t>(world); ++rank) {
      ForEachIterate(&loaded[rank], [](const float* element, int64_t at) { CHECK(*element == at); });
      for (const Block& block : loaded[rank].plan().blocks) {
        CHECK(*reinterpret_cast<double*>(loaded[rank].state().out() + block.lr_sum.offset) == 2.5);
      }
      CHECK(loaded[rank].steps() == 9);
    }
  }
}

TEST_CASE("an error of one rank is returned by all ranks, which then save and load nothing") {
  const TemporaryDirectory directory;
  CheckpointJob job(2, SetupOfReplicas(kAllStates), directory.path());
  job[1].call.caller_status = Invalid("a caller's mistake");
  CheckAllFail(job.Save(), Code::kInvalid, "rank 1: a caller's mistake");
  job[1].call.caller_status = Status();
  job[0].state().MarkUnusable("the last load failed");
  CheckAllFail(job.Save(), Code::kState, "rank 0: the last load failed");
  CHECK(std::filesystem::is_empty(directory.path()));
  job[0].state().MarkReplaced();
  CheckAllOk(job.Save());
  job[1].call.caller_status = Invalid("a caller's mistake");
  CheckOk(job[0].state().WriteSteps(0, 5));
  CheckAllFail(job.Load(), Code::kInvalid, "rank 1: a caller's mistake");
  CHECK(job[0].steps() == 5);
}

TEST_CASE("if one rank cannot write its file, all ranks remove their files, and the earlier checkpoint remains") {
  const TemporaryDirectory directory;
  CheckpointJob job(2, SetupOfReplicas(kAllStates), directory.path());
  CheckAllOk(job.Save());
  job[1].call.directory = directory / "missing";
  CheckAllFail(job.Save(), Code::kIo, "the save failed; earlier checkpoints are unchanged");
  std::vector<FoundCheckpoint> found;
  CheckOk(FindCheckpoints(directory.path(), &found));
  REQUIRE(found.size() == 1);
  CHECK(found[0].number == 1);
  CHECK(found[0].complete);
  CHECK(found[0].names.size() == 3);
}

TEST_CASE("ranks that use different directories cannot save or load together") {
  const TemporaryDirectory directory;
  const TemporaryDirectory other;
  CheckpointJob first(2, SetupOfReplicas(kAllStates), directory.path());
  CheckpointJob second(2, SetupOfReplicas(kAllStates), other.path());
  for (size_t rank = 0; rank < 2; ++rank) CheckOk(second[rank].state().WriteSteps(0, 3));
  CheckAllOk(first.Save());
  CheckAllOk(second.Save());
  first[1].call.directory = other.path();
  CheckAllFail(first.Load(), Code::kIo, "rank 1: " + other / IndexName(1) + " is not the same file as on rank 0");
  CheckAllFail(first.Save(), Code::kIo, "rank 0 does not see a file that another rank wrote");
}

TEST_CASE("if a collective of a save fails, a later load takes the newest complete checkpoint") {
  const TemporaryDirectory directory;
  CheckpointJob first(2, SetupOfReplicas(kAllStates), directory.path());
  int64_t calls = 0;
  first.threads.fails = [&](int rank, int64_t call) {
    if (rank == 0) calls = call;
    return false;
  };
  CheckAllOk(first.Save());
  for (int64_t failing = 1; failing <= calls; ++failing) {
    CAPTURE(failing);
    CheckpointJob second(2, SetupOfReplicas(kAllStates), directory.path());
    for (size_t rank = 0; rank < 2; ++rank) FillStates(&second[rank], 1);
    second.threads.fails = [&](int, int64_t call) { return call == failing; };
    const bool is_complete = failing == calls;
    CheckAllFail(second.Save(), Code::kComm, is_complete ? "a load takes the last complete one" : "");
    CheckpointJob loaded(2, SetupOfReplicas(kAllStates), directory.path());
    CheckAllOk(loaded.Load());
    CheckpointJob& expected = is_complete ? second : first;
    for (size_t rank = 0; rank < 2; ++rank) CHECK(loaded[rank].States() == expected[rank].States());
  }
}

// A setup in which rank 1 has both parameters of kSteppedShapes, and rank 0 has only the first one.
StepFixture::Setup LastHasBoth(const Communicator& comm) {
  return SetupOfCopies(comm.rank() == 1 ? kSteppedShapes : std::vector<std::vector<int64_t>>{{4, 6}})(comm);
}

TEST_CASE("a save fails if two ranks own the same elements of a parameter, and warns if some elements are on no rank") {
  const TemporaryDirectory directory;
  CheckpointJob twice(2, LastHasBoth, directory.path());
  CheckAllFail(twice.Save(), Code::kInvalid,
               "the blocks of parameter \"p0\" have 48 elements in total, but the parameter has 24");

  // Both ranks of `half` have shard 1 of 2, and no rank has shard 0.
  const ThreadRanks of_shards(2);
  CheckpointJob half(
      2, [&](const Communicator&) { return SetupOfShards(kAllStates)(*of_shards.comm(1)); }, directory.path());
  const LogCapture log;
  CheckAllOk(half.Save());
  REQUIRE(log.messages().size() == 2);
  CHECK(log.messages()[0].find("this save has 12 of the 24 elements of parameter \"p0\"") == 0);
}

TEST_CASE("each parameter of a checkpoint must be on at least one of the ranks that load the checkpoint") {
  const TemporaryDirectory directory;
  CheckAllOk(CheckpointJob(1, SetupOfCopies(kSteppedShapes), directory.path()).Save());
  CheckAllFail(CheckpointJob(2, SetupOfCopies({{4, 6}}), directory.path()).Load(), Code::kInvalid,
               "no optimizer has these parameters of the checkpoint: \"p1\"");
  CheckAllOk(CheckpointJob(2, LastHasBoth, directory.path()).Load());
}

TEST_CASE("a load clears the snapshots if the checkpoint was saved without root_async") {
  const TemporaryDirectory directory;
  const OptionKeys keys = "precondition_frequency=4";
  CheckAllOk(CheckpointJob(1, SetupOfCopies({{2, 3}}, keys), directory.path()).Save());
  CheckpointJob loaded(1, SetupOfCopies({{2, 3}}, keys + "root_async=2"), directory.path());
  CheckpointRank& rank = loaded[0];
  const std::string snapshots[] = {"p0/0/snapshot_step", "p0/0/snapshot.0", "p0/0/snapshot.1"};
  const auto is_zero = [&](const std::string& key) {
    const char* const first = rank.state().out() + rank.EntryOf(key).arena_offset;
    return std::count(first, first + rank.EntryOf(key).span_bytes(), '\0') == rank.EntryOf(key).span_bytes();
  };
  for (const std::string& key : snapshots) {
    std::memset(rank.state().out() + rank.EntryOf(key).arena_offset, 7,
                static_cast<size_t>(rank.EntryOf(key).span_bytes()));
    CHECK(!is_zero(key));
  }
  CheckAllOk(loaded.Load());
  for (const std::string& key : snapshots) CHECK_MESSAGE(is_zero(key), key);
}

// An observer whose FinishSteps() fails when it is called for the second time. A load makes the second call after it
// has written the state.
struct FailsAfterWriting final : StateObserver {
  Status FinishSteps() override {
    if (++calls < 2) return {};
    if (on_failure) on_failure();
    return Numeric("a replayed step failed");
  }
  void OnInitialize() override {}
  void OnWrite(bool /*step_counters*/) override {}
  void OnReplace() override {}
  void OnUnseenWrite() override {}

  int calls = 0;
  std::function<void()> on_failure;
};

TEST_CASE("if a load fails on one rank, all ranks restore the states that they had before the load") {
  const TemporaryDirectory directory;
  CheckpointJob saved(2, SetupOfReplicas(kAllStates), directory.path());
  for (size_t rank = 0; rank < 2; ++rank) FillStates(&saved[rank], 7);
  CheckAllOk(saved.Save());
  CheckpointJob loaded(2, SetupOfReplicas(kAllStates), directory.path());
  FillStates(&loaded[0], 100);
  CheckOk(loaded[0].state().WriteSteps(0, 5));
  const std::vector<char> before[] = {loaded[0].States(), loaded[1].States()};
  FailsAfterWriting observer;
  loaded[1].state().Observe(&observer);
  CheckAllFail(loaded.Load(), Code::kNumeric, "rank 1: a replayed step failed");
  for (size_t rank = 0; rank < 2; ++rank) {
    CHECK(loaded[rank].States() == before[rank]);
    CHECK(loaded[rank].state().is_initial() == (rank == 1));
    CheckOk(loaded[rank].state().CheckUsable(loaded[rank].state().out()));
  }
}

TEST_CASE(
    "a state that cannot be restored after a failed load is unusable, and later errors quote the error of the load") {
  const TemporaryDirectory directory;
  CheckpointJob saved(1, SetupOfCopies(kSteppedShapes), directory.path());
  CheckAllOk(saved.Save());
  for (const bool restores : {true, false}) {
    RemoteState remote(saved[0].plan());
    CheckOk(remote.state->WriteSteps(0, 5));
    FailsAfterWriting observer;
    if (!restores) observer.on_failure = [&] { remote.memory->fails = true; };
    remote.state->Observe(&observer);
    OptimizerState* const states[] = {remote.state.get()};
    CheckpointCall call;
    call.optimizers = states;
    call.directory = directory.path();
    CheckError(LoadCheckpoint(call), Code::kNumeric, "a replayed step failed");
    const Status usable = remote.state->CheckUsable(remote.state->out());
    if (restores) {
      CheckOk(usable);
      int64_t steps = 0;
      CheckOk(remote.state->ReadSteps(0, &steps));
      CHECK(steps == 5);
    } else {
      CheckError(usable, Code::kState, "a failed load left a part of the checkpoint in the state");
      CheckError(usable, Code::kState, "The load failed with: a replayed step failed");
    }
  }
}

}  // namespace
}  // namespace shampoo
