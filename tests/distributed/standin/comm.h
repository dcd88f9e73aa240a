// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>

#include "meeting.h"

// What an ncclComm_t points to: a rank's seat in a meeting, which lives as long as one of the ranks does.
struct ncclComm {
  ncclComm(std::shared_ptr<standin::Meeting> all, int own) : meeting(std::move(all)), rank(own) {}

  const std::shared_ptr<standin::Meeting> meeting;
  const int rank;
  std::atomic<bool> non_blocking = false;
  std::atomic<ncclResult_t> broken = ncclSuccess;
};
