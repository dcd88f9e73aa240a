// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "core/state/optimizer_state.h"
#include "tests/core/remote_state.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

using CallNames = std::vector<std::string>;

struct OwnedMatrix : StepFixture {
  OwnedMatrix() : StepFixture("use_merge_dims=false", {{2, 3}, {2, 3}}) {}
  int64_t bytes() const { return plan().state_bytes(); }
};

TEST_CASE("Bind selects the arenas that steps read and write, and NULL for both selects the original arena") {
  OwnedMatrix matrix;
  OptimizerState& state = matrix.state();
  char* const own = state.out();
  CallerArena in(matrix.bytes());
  CallerArena out(matrix.bytes());
  CheckOk(state.Bind(in.data(), out.data()));
  CHECK(state.in() == in.data());
  CHECK(state.out() == out.data());
  CHECK(matrix.observer.calls.empty());
  CheckOk(state.Bind(nullptr, nullptr));
  CHECK(state.in() == own);
  CHECK(state.out() == own);
  CHECK(matrix.observer.calls == CallNames{"unseen write"});
}

TEST_CASE("Bind rejects NULL for only one arena, addresses that are not aligned, and arenas that overlap") {
  OwnedMatrix matrix;
  OptimizerState& state = matrix.state();
  CallerArena arena(2 * matrix.bytes());
  char* const a = arena.data();
  CheckError(state.Bind(nullptr, a), Code::kInvalid, "state_in is NULL, but state_out is not");
  CheckError(state.Bind(a, nullptr), Code::kInvalid, "state_out is NULL, but state_in is not");
  CheckError(state.Bind(a + 8, a), Code::kInvalid,
             "state_in is not aligned: expected an address that is a multiple of 64");
  CheckError(state.Bind(a, a + matrix.bytes() + 8), Code::kInvalid, "state_out is not aligned");
  CheckError(state.Bind(a, a + kStateAlignment), Code::kInvalid, "state_in and state_out overlap");
  CheckError(state.Bind(a + kStateAlignment, a), Code::kInvalid, Cat("an arena has ", matrix.bytes(), " bytes"));
  CHECK(state.in() == state.memory().arena());
  CheckOk(state.Bind(a, a + matrix.bytes()));
  CheckOk(state.Bind(a, a));
}

TEST_CASE("is_initial returns true until a call that may change the state or that binds another arena") {
  OwnedMatrix matrix;
  OptimizerState& state = matrix.state();
  const StateEntry& entry = matrix.EntryOf("p0/0/filtered_grad");
  CallerArena caller(matrix.bytes());
  const std::function<void()> writes[] = {
      [&] { CheckOk(state.WriteSteps(0, 0)); },
      [&] {
        std::vector<char> copy;
        CheckOk(state.Change(entry, &copy, [](char*) { return Status(); }));
      },
      [&] { state.MarkWritten(); },
      [&] { state.MarkReplaced(); },
      [&] { state.MarkStepped(state.in(), state.out()); },
      [&] { CheckOk(state.Bind(caller.data(), caller.data())); },
  };
  for (const auto& write : writes) {
    CheckOk(state.Bind(nullptr, nullptr));
    CheckOk(state.Initialize());
    CHECK(state.is_initial());
    CheckOk(state.Bind(nullptr, nullptr));
    CHECK(state.is_initial());
    write();
    CHECK(!state.is_initial());
  }
}

TEST_CASE("is_initial returns false for a state in an arena of the caller") {
  OwnedMatrix matrix;
  CallerArena caller(matrix.bytes());
  std::unique_ptr<StateMemory> memory;
  CheckOk(HostMemory::Create(matrix.plan(), {}, caller.data(), matrix.backend(), &memory));
  OptimizerState state(matrix.plan(), std::move(memory), 1);
  state.Observe(&matrix.observer);
  CheckOk(state.Initialize());
  CHECK(!state.is_initial());
  CHECK(matrix.observer.calls == CallNames{"initialize"});
}

TEST_CASE("uploads and downloads use the arena that steps write, and the observer is notified of uploads") {
  OwnedMatrix matrix;
  OptimizerState& state = matrix.state();
  CallerArena in(matrix.bytes());
  CallerArena out(matrix.bytes());
  CheckOk(state.Bind(in.data(), out.data()));
  const int64_t at = matrix.EntryOf("p0/0/filtered_grad").arena_offset;
  const char bytes[] = "sixteen bytes...";
  CheckOk(state.Upload(at, 16, bytes));
  CHECK(std::memcmp(out.data() + at, bytes, 16) == 0);
  CHECK(in.data()[at] == 0);
  char back[16];
  CheckOk(state.Download(at, 16, back));
  CHECK(std::memcmp(back, bytes, 16) == 0);
  CheckOk(state.Upload(0, 8, bytes));
  CHECK(matrix.observer.calls == CallNames{"write", "write counters"});
}

TEST_CASE("each group has a step counter of its own") {
  StepFixture fixture({.keys = {}, .params = StepFixture::Describe({{2, 3}}), .more_groups = {{}}});
  CheckOk(fixture.state().WriteSteps(1, 7));
  CHECK(fixture.steps(0) == 0);
  CHECK(fixture.steps(1) == 7);
  CHECK(fixture.observer.calls == CallNames{"write counters"});
}

TEST_CASE("an entry in host memory is viewed and changed in place") {
  OwnedMatrix matrix;
  const StateEntry& entry = matrix.EntryOf("p1/0/filtered_grad");
  std::vector<char> copy;
  const char* seen = nullptr;
  CheckOk(matrix.state().View(entry, &copy, &seen));
  CHECK(seen == matrix.state().out() + entry.arena_offset);
  CheckOk(matrix.state().Change(entry, &copy, [&](char* memory) {
    CHECK(memory == seen);
    return Status();
  }));
  CHECK(copy.empty());
  CHECK(matrix.observer.calls == CallNames{"write"});
}

TEST_CASE("an entry that is not in host memory is copied, changed and stored") {
  OwnedMatrix matrix;
  RemoteState remote(matrix.plan());
  const StateEntry& entry = remote.state->entries()[1];
  std::vector<char> copy;
  CheckOk(remote.state->Change(entry, &copy, [](char* memory) {
    memory[0] = 42;
    return Status();
  }));
  CHECK(remote.memory->arena()[entry.arena_offset] == 42);
  CHECK(static_cast<int64_t>(copy.size()) == entry.span_bytes());
  const char* seen = nullptr;
  CheckOk(remote.state->View(entry, &copy, &seen));
  CHECK(seen == copy.data());
  CHECK(seen[0] == 42);
}

TEST_CASE("a change that fails stores nothing and returns its error") {
  OwnedMatrix matrix;
  RemoteState remote(matrix.plan());
  const StateEntry& entry = remote.state->entries()[1];
  std::vector<char> copy;
  CheckError(remote.state->Change(entry, &copy,
                                  [](char* memory) {
                                    memory[0] = 42;
                                    return IoFailed("no more");
                                  }),
             Code::kIo, "no more");
  CHECK(remote.memory->arena()[entry.arena_offset] == 0);
  remote.memory->fails = true;
  bool edited = false;
  CheckError(remote.state->Change(entry, &copy, [&](char*) { return edited = true, Status(); }), Code::kInternal,
             "the copy failed");
  CHECK(!edited);
}

TEST_CASE("InitializeFactors resets the factor matrices and inverse roots of one block") {
  OwnedMatrix matrix;
  for (const char* const key : {"p0/0/factor.0", "p0/0/inverse.0", "p1/0/factor.0", "p0/0/filtered_grad"}) {
    matrix.StateOf(key)[0] = 5;
  }
  CheckOk(matrix.state().InitializeFactors(matrix.plan().blocks[0]));
  CHECK(matrix.StateOf("p0/0/factor.0")[0] == 0);
  CHECK(matrix.StateOf("p0/0/inverse.0")[0] == 1);
  CHECK(matrix.StateOf("p1/0/factor.0")[0] == 5);
  CHECK(matrix.StateOf("p0/0/filtered_grad")[0] == 5);
  CHECK(matrix.observer.calls == CallNames{"write"});
}

TEST_CASE("an unusable state stays unusable until it is replaced or overwritten by a step that reads another arena") {
  OwnedMatrix matrix;
  OptimizerState& state = matrix.state();
  CallerArena other(matrix.bytes());
  const char* const lost = state.out();
  state.MarkUnusable("the load failed");
  CheckError(state.CheckUsable(lost), Code::kState, "the load failed");
  CheckOk(state.CheckUsable(other.data()));
  state.MarkStepped(lost, lost);  // this step reads the lost state, so its result is unusable, too
  CHECK(!state.CheckUsable(lost).ok());
  state.MarkStepped(lost, other.data());
  CHECK(!state.CheckUsable(lost).ok());
  state.MarkStepped(other.data(), lost);
  CheckOk(state.CheckUsable(lost));

  state.MarkUnusable("the load failed");
  state.MarkReplaced();
  CheckOk(state.CheckUsable(lost));
  CHECK(matrix.observer.calls == CallNames{"replace"});
}

TEST_CASE("FinishSteps passes its stream to the memory of the state and returns the error of the steps") {
  OwnedMatrix matrix;
  RemoteState remote(matrix.plan());
  int stream = 0;
  CheckOk(remote.state->FinishSteps(&stream));
  CHECK(remote.memory->last_stream == &stream);
  remote.observer.finish = Numeric("a step failed");
  CheckError(remote.state->FinishSteps(nullptr), Code::kNumeric, "a step failed");
}

}  // namespace
}  // namespace shampoo
