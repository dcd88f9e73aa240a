// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>

#include "meeting.h"

// The object to which an ncclComm_t points: one rank of a Meeting, which synchronizes the ranks of a communicator. The
// objects of all ranks share the Meeting, which is destroyed together with the last of them.
struct ncclComm {
  ncclComm(std::shared_ptr<standin::Meeting> all, int own) : meeting(std::move(all)), rank(own) {}

  const std::shared_ptr<standin::Meeting> meeting;
  const int rank;
  std::atomic<bool> non_blocking = false;
  std::atomic<ncclResult_t> broken = ncclSuccess;  // an error that ncclStandinBreak has set
};
