// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/communicator.h"

namespace shampoo {

// The functions of a communicator for the caller's ncclComm_t, by the copy of NCCL that the process has loaded under
// this path or soname (nullptr: libnccl.so.2). None is ever loaded here: a second copy in a process is a source of
// deadlocks. On success ops->release must be called in the end.
Status NcclOps(void* nccl_comm, const char* path, CommOps* ops);

}  // namespace shampoo
