// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

namespace shampoo::golden {

// Runs shampoo_replay, whose options are listed in main.cc. Returns the exit status.
// process: the communicator of which this process is a rank; null if all ranks are threads of this process.
int RunReplay(int argc, char** argv, const shampoo_comm_ops* process);

}  // namespace shampoo::golden
