// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Controls the fake of NCCL in stream_nccl.cc.
#pragma once

#include <nccl.h>

extern "C" {

// Makes later calls return ncclInProgress, as on a communicator with ncclConfig_t.blocking = 0. Their work is enqueued
// when ncclCommGetAsyncError() has reported ncclInProgress once and is called again.
void stream_nccl_set_non_blocking(ncclComm_t comm);

// Returns the number of groups that were enqueued since the start of the process.
int stream_nccl_groups(void);

}  // extern "C"
