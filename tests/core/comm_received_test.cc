// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/comm/received.h"
#include "tests/core/comm_test_util.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

TEST_CASE("a number from another rank must be in the expected range") {
  const MirrorComm comm(3, 2);
  for (const int64_t number : {int64_t{2}, int64_t{4}}) CheckOk(CheckReceived(*comm.get(), {"count", 1, number}, 2, 4));
  for (const int64_t number : {int64_t{1}, int64_t{5}, INT64_MIN, INT64_MAX}) {
    CheckCommError(CheckReceived(*comm.get(), {"count", 1, number}, 2, 4),
                   Cat("rank 2 received an invalid count from rank 1: ", number, "; expected 2 to 4"));
  }
  CHECK(!comm.get()->failed());
}

TEST_CASE(
    "CheckReceivedOrAbort makes the communicator fail if a number is invalid, because ranks exchange no status "
    "afterwards") {
  const MirrorComm comm;
  CheckOk(CheckReceivedOrAbort(comm.get(), {"count", 1, 0}, 0, 0));
  CHECK(!comm.get()->failed());
  CHECK(!CheckReceivedOrAbort(comm.get(), {"count", 1, 1}, 0, 0).ok());
  CHECK(comm.get()->failed());
  CHECK(comm.aborts == 1);
}

TEST_CASE("received status codes must exist, and received optimizer numbers must have been assigned") {
  for (const int64_t code : {int64_t{0}, int64_t{9}}) CheckOk(CheckCodeOrAbort(MirrorComm().get(), 1, code));
  for (const int64_t code : {int64_t{-1}, int64_t{10}}) {
    CheckCommError(CheckCodeOrAbort(MirrorComm().get(), 1, code), Cat("an invalid status code from rank 1: ", code));
  }
  const MirrorComm comm;
  (void)comm.get()->TakeOptimizerId();
  CheckOk(CheckOptimizerIdOrAbort(comm.get(), 1, 0));
  CheckCommError(CheckOptimizerIdOrAbort(comm.get(), 1, 1), "an invalid optimizer number from rank 1: 1");
}

}  // namespace
}  // namespace shampoo
