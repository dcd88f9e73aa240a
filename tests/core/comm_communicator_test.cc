// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/core/comm_test_util.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

// Callbacks for rank 1 of 2 that count their calls and fail on request.
struct CallerFunctions {
  explicit CallerFunctions(bool with_abort = true) {
    ops.user = this;
    ops.rank = 1;
    ops.world = 2;
    ops.all_gather = [](void* user, const void* send, void* recv, size_t bytes, void*) {
      auto* const self = static_cast<CallerFunctions*>(user);
      ++self->calls;
      std::memcpy(recv, send, bytes);  // rank 0 sends the same
      return self->error;
    };
    ops.all_to_all = [](void* user, const void*, const size_t*, void*, const size_t*, void*) {
      return static_cast<CallerFunctions*>(user)->error;
    };
    ops.async_error = [](void* user) { return static_cast<CallerFunctions*>(user)->async_error; };
    if (with_abort) ops.abort = [](void* user) { ++static_cast<CallerFunctions*>(user)->aborts; };
    ops.release = [](void* user) { ++static_cast<CallerFunctions*>(user)->releases; };
  }
  std::shared_ptr<Communicator> Create() const {
    std::shared_ptr<Communicator> comm;
    CheckOk(Communicator::Create(ops, &comm));
    return comm;
  }

  CommOps ops;
  int32_t error = 0;
  int32_t async_error = 0;
  int calls = 0;
  int aborts = 0;
  int releases = 0;
};

TEST_CASE("a communicator needs an all_gather, and a rank within its world") {
  struct Case {
    int rank;
    int world;
    const char* says;
  };
  std::shared_ptr<Communicator> comm;
  for (const Case& one :
       {Case{0, 0, "ops.world is 0: expected 1 to 1048576"}, Case{0, 1 << 21, "ops.world is 2097152"},
        Case{2, 2, "ops.rank is 2: expected 0 to 1 because ops.world is 2"}, Case{-1, 2, "ops.rank is -1"}}) {
    CallerFunctions functions;
    functions.ops.rank = one.rank;
    functions.ops.world = one.world;
    CheckError(Communicator::Create(functions.ops, &comm), Code::kInvalid, one.says);
    CHECK(functions.releases == 0);
  }
  CallerFunctions functions;
  functions.ops.all_gather = nullptr;
  CheckError(Communicator::Create(functions.ops, &comm), Code::kInvalid, "ops.all_gather is NULL");
  CHECK(comm == nullptr);
}

TEST_CASE("the caller's release is called when the last reference is dropped") {
  const CallerFunctions functions;
  auto comm = functions.Create();
  auto second = comm;
  comm.reset();
  CHECK(functions.releases == 0);
  second.reset();
  CHECK(functions.releases == 1);
}

TEST_CASE("optimizers are numbered in the order of their creation") {
  const CallerFunctions functions;
  const auto comm = functions.Create();
  CHECK(comm->TakeOptimizerId() == 0);
  CHECK(comm->TakeOptimizerId() == 1);
  CHECK(comm->optimizer_ids_taken() == 2);
}

TEST_CASE("a gather returns the segments and the numbers of all ranks") {
  const CallerFunctions functions;
  const auto comm = functions.Create();
  int32_t segments[2] = {0, 7};
  CheckOk(comm->GatherInPlace(segments, sizeof segments[0]));
  CHECK(segments[0] == 7);
  CheckOk(comm->AllGatherInt(5));
  CHECK(comm->GatheredInt(0) == 5);
  CHECK(comm->GatheredInt(1) == 5);
  CHECK(!comm->failed());
}

TEST_CASE("a failed collective calls abort once, and later collectives fail") {
  CallerFunctions functions;
  const auto comm = functions.Create();
  comm->SetRankName("shard rank");
  functions.error = 42;
  int32_t segments[2] = {};
  CheckError(comm->GatherInPlace(segments, 4), Code::kComm,
             "shard rank 1: all_gather of the communicator returned 42 for segments of 4 bytes");
  CHECK(!comm->GatherInPlace(segments, 4).ok());
  CHECK(comm->failed());
  CHECK(comm->failure_is_known());
  CHECK(functions.aborts == 1);
  CHECK(!comm->TakeFailureToReport());
  CheckError(comm->PriorFailure(), Code::kComm, "shard rank 1: a collective or a CUDA call failed before");
}

TEST_CASE("without an abort function, a failure must be reported to the other ranks once") {
  CallerFunctions functions(false);
  const auto comm = functions.Create();
  CHECK(!comm->TakeFailureToReport());
  functions.error = 1;
  CHECK(!comm->AllGatherInt(0).ok());
  CHECK(comm->failed());
  CHECK(!comm->failure_is_known());
  CHECK(comm->TakeFailureToReport());
  CHECK(comm->failure_is_known());
  CHECK(!comm->TakeFailureToReport());
}

TEST_CASE("a failure that all ranks know is not reported again") {
  const CallerFunctions functions;
  const auto comm = functions.Create();
  CheckError(comm->FailTogether(CommFailed("all of us")), Code::kComm, "all of us");
  CHECK(comm->failed());
  CHECK(comm->failure_is_known());
  CHECK(!comm->TakeFailureToReport());
  CHECK(functions.aborts == 0);
}

TEST_CASE("an error from async_error fails the next collective before it starts") {
  CallerFunctions functions;
  const auto comm = functions.Create();
  functions.async_error = 9;
  int32_t segments[2] = {};
  CheckError(comm->GatherInPlace(segments, 4), Code::kComm, "rank 1: async_error of the communicator returned 9");
  CHECK(functions.calls == 0);
  CHECK(comm->failed());
}

TEST_CASE("a collective that fails during a capture aborts nothing unless an earlier collective has failed") {
  constexpr bool kCaptured = true;
  for (const bool to_all : {false, true}) {
    for (const bool failed_before : {false, true}) {
      CAPTURE(to_all);
      CAPTURE(failed_before);
      CallerFunctions functions;
      const auto comm = functions.Create();
      functions.error = 42;
      functions.async_error = failed_before ? 9 : 0;
      const size_t sizes[] = {4, 4};
      char send[8] = {};
      char recv[8] = {};
      const Status status = to_all ? comm->AllToAllInStream(send, sizes, recv, sizes, nullptr, kCaptured)
                                   : comm->GatherInStream(recv, 4, nullptr, kCaptured);
      if (failed_before) {
        CheckError(status, Code::kComm, "rank 1: async_error of the communicator returned 9");
      } else {
        CheckError(status, Code::kState, "of the communicator returned 42 while the stream is captured");
      }
      CHECK(comm->failed() == failed_before);
      CHECK(functions.aborts == (failed_before ? 1 : 0));
    }
  }
}

TEST_CASE("the error of a failed all-to-all has the numbers of bytes to send and to receive") {
  CallerFunctions functions;
  const auto comm = functions.Create();
  CHECK(comm->has_all_to_all());
  const size_t send[] = {3, 4};
  const size_t recv[] = {5, 6};
  char bytes[16] = {};
  CheckOk(comm->AllToAll(bytes, send, bytes, recv));
  functions.error = 3;
  CheckError(comm->AllToAll(bytes, send, bytes, recv), Code::kComm,
             "all_to_all of the communicator returned 3 for 7 bytes to send and 11 to receive");
  CHECK(functions.aborts == 1);
  functions.error = 0;
  functions.async_error = 8;
  CheckError(comm->AllToAll(bytes, send, bytes, recv), Code::kComm, "async_error of the communicator returned 8");
}

// Staging memory of a fake device. The call with number fails_at, counted from 1, and all later calls fail.
class FakeStaging final : public Staging {
 public:
  Status Memory(int64_t bytes, char** memory) override {
    memory_.resize(static_cast<size_t>(bytes));
    *memory = memory_.data();
    return Count();
  }
  Status ToDevice(void* to, const void* from, int64_t bytes) override { return Copy(to, from, bytes); }
  Status ToHost(void* to, const void* from, int64_t bytes) override { return Copy(to, from, bytes); }
  void* stream() const override { return nullptr; }

  int calls = 0;
  int fails_at = 1000;

 private:
  Status Count() { return ++calls >= fails_at ? Internal("the device failed") : Status(); }
  Status Copy(void* to, const void* from, int64_t bytes) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return Count();
  }
  std::vector<char> memory_;
};

TEST_CASE("in a StagingScope, buffers are copied through device memory") {
  CallerFunctions functions;
  functions.ops.takes_device_memory = true;
  const auto comm = functions.Create();
  FakeStaging staging;
  int32_t segments[2] = {0, 7};
  {
    const StagingScope scope(comm.get(), &staging);
    CheckOk(comm->GatherInPlace(segments, sizeof segments[0]));
  }
  CHECK(segments[0] == 7);
  CHECK(segments[1] == 7);
  CHECK(staging.calls == 3);
  CheckOk(comm->GatherInPlace(segments, sizeof segments[0]));
  CHECK(staging.calls == 3);
}

TEST_CASE("a communicator of host memory needs no staging") {
  const CallerFunctions functions;
  const auto comm = functions.Create();
  FakeStaging staging;
  const StagingScope scope(comm.get(), &staging);
  int32_t segments[2] = {0, 7};
  CheckOk(comm->GatherInPlace(segments, sizeof segments[0]));
  CHECK(segments[0] == 7);
  CHECK(staging.calls == 0);
}

TEST_CASE("a failed copy to or from the device makes the communicator fail, so that no rank waits for this one") {
  for (const int fails_at : {1, 2, 3}) {
    CallerFunctions functions;
    functions.ops.takes_device_memory = true;
    const auto comm = functions.Create();
    FakeStaging staging;
    staging.fails_at = fails_at;
    const StagingScope scope(comm.get(), &staging);
    int32_t segments[2] = {};
    CheckError(comm->GatherInPlace(segments, 4), Code::kInternal, "the device failed");
    CHECK(comm->failed());
    CHECK(functions.aborts == 1);
  }
}

}  // namespace
}  // namespace shampoo
