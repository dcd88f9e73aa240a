// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/communicator.h"

namespace shampoo {

// Returns the functions of a communicator for the caller's ncclComm_t. They call the copy of NCCL that the process has
// loaded under this path or soname (nullptr: libnccl.so.2). Never loads NCCL, because a second copy in a process can
// cause deadlocks. After success, the caller must call ops->release when it no longer needs the functions.
Status NcclOps(void* nccl_comm, const char* path, CommOps* ops);

}  // namespace shampoo
