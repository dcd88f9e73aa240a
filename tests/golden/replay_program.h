// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

namespace shampoo::golden {

// Runs shampoo_replay. main.cc lists its options. `process` is the communicator of this process if the process is one
// rank of a job, or null if all ranks are threads of this process. Returns the exit status.
int RunReplay(int argc, char** argv, const shampoo_comm_ops* process);

}  // namespace shampoo::golden
