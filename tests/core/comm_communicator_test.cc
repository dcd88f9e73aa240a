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

// Callbacks for rank 1 of a communicator with two ranks. They return the errors that a test sets, and count the
// calls of all_gather, abort and release.
struct CallerFunctions {
  explicit CallerFunctions(bool with_abort = true) {
    ops.user = this;
    ops.rank = 1;
    ops.world = 2;
    ops.all_gather = [](void* user, const void* send, void* recv, size_t bytes, void*) {
      auto* const self = static_cast<CallerFunctions*>(user);
      ++self->calls;
      std::memcpy(recv, send, bytes);  // rank 0 sends the same data
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

// The communicator of rank 1 of 2, and the buffer into which the rank gathers.
struct CallerComm : CallerFunctions {
  explicit CallerComm(bool with_abort = true, bool takes_device_memory = false) : CallerFunctions(with_abort) {
    ops.takes_device_memory = takes_device_memory;
    comm = Create();
  }
  Status Gather() { return comm->GatherInPlace(segments, sizeof segments[0]); }

  std::shared_ptr<Communicator> comm;
  int32_t segments[2] = {0, 7};
};

TEST_CASE("a communicator needs an all_gather function, and a rank that is below the number of ranks") {
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

TEST_CASE("the release function of the caller is called when the last reference to the communicator is dropped") {
  const CallerFunctions functions;
  auto comm = functions.Create();
  auto second = comm;
  comm.reset();
  CHECK(functions.releases == 0);
  second.reset();
  CHECK(functions.releases == 1);
}

TEST_CASE("optimizers are numbered in the order of their creation") {
  const CallerComm one;
  CHECK(one.comm->TakeOptimizerId() == 0);
  CHECK(one.comm->TakeOptimizerId() == 1);
  CHECK(one.comm->optimizer_ids_taken() == 2);
}

TEST_CASE("GatherInPlace and AllGatherInt store the data that all_gather receives") {
  CallerComm one;
  CheckOk(one.Gather());
  CHECK(one.segments[0] == 7);
  CheckOk(one.comm->AllGatherInt(5));
  CHECK(one.comm->GatheredInt(0) == 5);
  CHECK(one.comm->GatheredInt(1) == 5);
  CHECK(!one.comm->failed());
}

TEST_CASE("a failed collective calls abort once, and later collectives fail") {
  CallerComm one;
  one.comm->SetRankName("shard rank");
  one.error = 42;
  CheckError(one.Gather(), Code::kComm,
             "shard rank 1: all_gather of the communicator returned 42 for segments of 4 bytes");
  CHECK(!one.Gather().ok());
  CHECK(one.comm->failed());
  CHECK(one.comm->failure_is_known());
  CHECK(one.aborts == 1);
  CHECK(!one.comm->TakeFailureToReport());
  CheckError(one.comm->PriorFailure(), Code::kComm, "shard rank 1: a collective or a CUDA call failed before");
}

TEST_CASE("without an abort function, only the first TakeFailureToReport after a failure returns true") {
  CallerComm one(/*with_abort=*/false);
  CHECK(!one.comm->TakeFailureToReport());
  one.error = 1;
  CHECK(!one.comm->AllGatherInt(0).ok());
  CHECK(one.comm->failed());
  CHECK(!one.comm->failure_is_known());
  CHECK(one.comm->TakeFailureToReport());
  CHECK(one.comm->failure_is_known());
  CHECK(!one.comm->TakeFailureToReport());
}

TEST_CASE("a failure that all ranks know is not reported again") {
  const CallerComm one;
  CheckError(one.comm->FailTogether(CommFailed("all of us")), Code::kComm, "all of us");
  CHECK(one.comm->failed());
  CHECK(one.comm->failure_is_known());
  CHECK(!one.comm->TakeFailureToReport());
  CHECK(one.aborts == 0);
}

TEST_CASE("if async_error returns an error, the next collective fails before it starts") {
  CallerComm one;
  one.async_error = 9;
  CheckError(one.Gather(), Code::kComm, "rank 1: async_error of the communicator returned 9");
  CHECK(one.calls == 0);
  CHECK(one.comm->failed());
}

TEST_CASE(
    "a collective that fails while its stream is captured aborts the communicator only if async_error reports an "
    "earlier failure") {
  constexpr bool kCaptured = true;
  for (const bool to_all : {false, true}) {
    for (const bool failed_before : {false, true}) {
      CAPTURE(to_all);
      CAPTURE(failed_before);
      CallerComm one;
      one.error = 42;
      one.async_error = failed_before ? 9 : 0;
      const size_t sizes[] = {4, 4};
      char send[8] = {};
      char recv[8] = {};
      const Status status = to_all ? one.comm->AllToAllInStream(send, sizes, recv, sizes, nullptr, kCaptured)
                                   : one.comm->GatherInStream(recv, 4, nullptr, kCaptured);
      CheckError(status, failed_before ? Code::kComm : Code::kState,
                 failed_before ? "rank 1: async_error of the communicator returned 9"
                               : "of the communicator returned 42 while the stream is captured");
      CHECK(one.comm->failed() == failed_before);
      CHECK(one.aborts == (failed_before ? 1 : 0));
    }
  }
}

TEST_CASE("the error of a failed all-to-all has the numbers of bytes to send and to receive") {
  CallerComm one;
  CHECK(one.comm->has_all_to_all());
  const size_t send[] = {3, 4};
  const size_t recv[] = {5, 6};
  char bytes[16] = {};
  CheckOk(one.comm->AllToAll(bytes, send, bytes, recv));
  one.error = 3;
  CheckError(one.comm->AllToAll(bytes, send, bytes, recv), Code::kComm,
             "all_to_all of the communicator returned 3 for 7 bytes to send and 11 to receive");
  CHECK(one.aborts == 1);
  one.error = 0;
  one.async_error = 8;
  CheckError(one.comm->AllToAll(bytes, send, bytes, recv), Code::kComm, "async_error of the communicator returned 8");
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

TEST_CASE("in a StagingScope, a collective copies its buffer to device memory and back") {
  CallerComm one(/*with_abort=*/true, /*takes_device_memory=*/true);
  FakeStaging staging;
  {
    const StagingScope scope(one.comm.get(), &staging);
    CheckOk(one.Gather());
  }
  CHECK(one.segments[0] == 7);
  CHECK(one.segments[1] == 7);
  CHECK(staging.calls == 3);
  CheckOk(one.Gather());
  CHECK(staging.calls == 3);
}

TEST_CASE("a communicator that takes host memory does not use staging memory") {
  CallerComm one;
  FakeStaging staging;
  const StagingScope scope(one.comm.get(), &staging);
  CheckOk(one.Gather());
  CHECK(one.segments[0] == 7);
  CHECK(staging.calls == 0);
}

TEST_CASE(
    "a failed copy to or from the device makes the communicator fail, so that no other rank waits for this rank") {
  for (const int fails_at : {1, 2, 3}) {
    CallerComm one(/*with_abort=*/true, /*takes_device_memory=*/true);
    FakeStaging staging;
    staging.fails_at = fails_at;
    const StagingScope scope(one.comm.get(), &staging);
    CheckError(one.Gather(), Code::kInternal, "the device failed");
    CHECK(one.comm->failed());
    CHECK(one.aborts == 1);
  }
}

}  // namespace
}  // namespace shampoo
