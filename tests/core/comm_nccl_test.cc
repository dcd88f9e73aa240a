// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests NcclOps(), which returns the callbacks of a communicator. These callbacks call NCCL. The tests use a fake NCCL.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include "core/comm/nccl.h"
#include "tests/core/fake_nccl.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

using Calls = std::vector<std::string>;

// The loaded fake NCCL, and the callbacks that NcclOps() returns for it.
class LoadedNccl {
 public:
  LoadedNccl() : library_(dlopen(SHAMPOO_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE(library_ != nullptr);
    fake = reinterpret_cast<FakeNccl* (*)()>(dlsym(library_, "fake_nccl"))();
    *fake = {};
  }
  ~LoadedNccl() {
    if (ops.release != nullptr) ops.release(ops.user);
    dlclose(library_);
  }
  void Open() {
    CheckOk(NcclOps(&ops, SHAMPOO_FAKE_NCCL, &ops));
    fake->calls.clear();
  }
  int32_t AllToAll() {
    const size_t send[] = {8, 0};
    const size_t recv[] = {4, 2};
    return ops.all_to_all(ops.user, nullptr, send, nullptr, recv, nullptr);
  }

  FakeNccl* fake;
  CommOps ops;

 private:
  void* library_;
};

TEST_CASE(
    "NcclOps takes rank and world from the communicator of NCCL, requires device memory, and sets no abort function") {
  LoadedNccl nccl;
  nccl.Open();
  CHECK(nccl.ops.rank == 1);
  CHECK(nccl.ops.world == 2);
  CHECK(nccl.ops.takes_device_memory);
  CHECK((nccl.ops.abort == nullptr));
}

TEST_CASE("NcclOps does not load NCCL, and returns an error if the process has not loaded NCCL") {
  CommOps ops;
  CheckError(NcclOps(nullptr, "libabsent.so.2", &ops), Code::kState,
             "libnccl_path \"libabsent.so.2\": this process has loaded no library by that name");
  CheckError(NcclOps(nullptr, "libc.so.6", &ops), Code::kUnsupported, "ncclAllGather");
  CHECK((ops.release == nullptr));
}

TEST_CASE("if NCCL cannot report the rank or the number of ranks, the error of NcclOps quotes the message of NCCL") {
  for (const char* function : {"rank", "count"}) {
    LoadedNccl nccl;
    nccl.fake->failing = function;
    CheckError(NcclOps(nullptr, SHAMPOO_FAKE_NCCL, &nccl.ops), Code::kInvalid, "returned 5 (a fake error)");
    CHECK((nccl.ops.release == nullptr));
  }
}

TEST_CASE("with a non-blocking communicator, all_gather returns when NCCL has enqueued the work") {
  LoadedNccl nccl;
  nccl.Open();
  CHECK(nccl.ops.all_gather(nccl.ops.user, nullptr, nullptr, 16, nullptr) == 0);
  CHECK(nccl.fake->calls == Calls{"gather 16"});
  nccl.fake->calls.clear();
  nccl.fake->result = 7;
  nccl.fake->in_progress = 2;
  nccl.fake->state = 3;
  CHECK(nccl.ops.all_gather(nccl.ops.user, nullptr, nullptr, 16, nullptr) == 3);
  CHECK(nccl.fake->calls == Calls{"gather 16", "state", "state", "state"});
}

TEST_CASE("an all-to-all is one group of NCCL with the sends and receives that are not empty") {
  LoadedNccl nccl;
  nccl.Open();
  CHECK(nccl.AllToAll() == 0);
  CHECK(nccl.fake->calls == Calls{"start", "send 8 to 0", "recv 4 from 0", "recv 2 from 1", "end"});
}

TEST_CASE("an all-to-all that fails ends its group, and returns the first error") {
  LoadedNccl nccl;
  nccl.Open();
  nccl.fake->failing = "send";
  CHECK(nccl.AllToAll() == 5);
  CHECK(nccl.fake->calls == Calls{"start", "send 8 to 0", "end"});
  nccl.fake->failing = "end";
  CHECK(nccl.AllToAll() == 5);
  nccl.fake->calls.clear();
  nccl.fake->failing = "start";
  CHECK(nccl.AllToAll() == 5);
  CHECK(nccl.fake->calls == Calls{"start"});
}

TEST_CASE("async_error returns the error of NCCL, and 0 while work is in progress") {
  LoadedNccl nccl;
  nccl.Open();
  nccl.fake->in_progress = 1;
  CHECK(nccl.ops.async_error(nccl.ops.user) == 0);
  nccl.fake->state = 6;
  CHECK(nccl.ops.async_error(nccl.ops.user) == 6);
  nccl.fake->failing = "state";
  CHECK(nccl.ops.async_error(nccl.ops.user) == 5);
}

}  // namespace
}  // namespace shampoo
