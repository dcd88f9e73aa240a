// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shampoo {

// The calls that the fake NCCL (fake_nccl.cc) has received, and the values that its functions return. The library has
// one such object, to which fake_nccl() returns a pointer. Send and receive buffers are neither read nor written.
struct FakeNccl {
  std::vector<std::string> calls;  // such as "gather 64", "send 8 to 0" or "end"
  int in_progress = 0;             // how many more calls of ncclCommGetAsyncError return ncclInProgress
  int state = 0;                   // the state that later calls of ncclCommGetAsyncError return
  int result = 0;                  // result of ncclAllGather, ncclSend and ncclGroupEnd
  std::string failing = "none";    // the function that fails with error 5
};

}  // namespace shampoo
