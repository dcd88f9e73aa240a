// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shampoo {

// The state of the library fake_nccl.cc, which its function fake_nccl() returns. A call is recorded as its name and its
// number of bytes; the bytes at an address are not read.
struct FakeNccl {
  std::vector<std::string> calls;
  int in_progress = 0;           // how many queries of the state return ncclInProgress
  int state = 0;                 // what later ones return
  int result = 0;                // of ncclAllGather, ncclSend and ncclGroupEnd
  std::string failing = "none";  // the function that fails with error 5
};

}  // namespace shampoo
