// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <atomic>
#include <memory>

#include "meeting.h"

// The target of an ncclComm_t: the seat of a rank in a meeting. The meeting lives as long as any of its ranks.
struct ncclComm {
  ncclComm(std::shared_ptr<standin::Meeting> all, int own) : meeting(std::move(all)), rank(own) {}

  const std::shared_ptr<standin::Meeting> meeting;
  const int rank;
  std::atomic<bool> non_blocking = false;
  std::atomic<ncclResult_t> broken = ncclSuccess;
};
