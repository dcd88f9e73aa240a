// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shampoo {

// The calls that the fake NCCL (fake_nccl.cc) has received, and the values that its functions return. fake_nccl() in
// fake_nccl.cc returns a pointer to the only object of this type. The fake does not access send and receive buffers.
struct FakeNccl {
  std::vector<std::string> calls;  // such as "gather 64", "send 8 to 0" or "end"
  int in_progress = 0;             // how many more calls of ncclCommGetAsyncError report ncclInProgress
  int state = 0;                   // the state that later calls of ncclCommGetAsyncError report
  int result = 0;                  // result of ncclAllGather, ncclSend and ncclGroupEnd
  std::string failing = "none";    // the first word of the calls that return error 5
};

}  // namespace shampoo
