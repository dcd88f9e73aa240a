// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

namespace shampoo::golden {

// The whole of shampoo_replay, whose options main.cc lists. `process`: the communicator of a process that is one rank
// of its job; null if all ranks are threads of this process. Returns the exit status.
int RunReplay(int argc, char** argv, const shampoo_comm_ops* process);

}  // namespace shampoo::golden
