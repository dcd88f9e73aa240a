// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/communicator.h"

namespace shampoo {

// Sets *ops to the functions of a communicator for the caller's ncclComm_t. The functions call the copy of NCCL that
// the process has loaded from `path`, which is a path or a soname; nullptr means libnccl.so.2. This function never
// loads NCCL, because a second copy in a process can cause deadlocks. After success, the caller must call ops->release
// when it no longer needs the functions.
Status NcclOps(void* nccl_comm, const char* path, CommOps* ops);

}  // namespace shampoo
