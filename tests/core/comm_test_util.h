// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "core/comm/communicator.h"
#include "tests/core/status_check.h"

namespace shampoo {

// Writes an integer into a segment (the data that one rank sends in a collective), `at` bytes after its start.
template <typename Integer>
void Put(char* segment, size_t at, Integer number) {
  std::memcpy(segment + at, &number, sizeof number);
}

// A fake communicator of one rank. It simulates the other ranks: each of them sends a copy of this rank's data, unless
// `change` modifies the copy.
class MirrorComm {
 public:
  explicit MirrorComm(int world = 2, int rank = 0, bool takes_device_memory = false) : world_(world), rank_(rank) {
    CommOps ops;
    ops.user = this;
    ops.rank = rank;
    ops.world = world;
    ops.takes_device_memory = takes_device_memory;
    ops.all_gather = [](void* user, const void* send, void* recv, size_t bytes, void* stream) {
      auto* const self = static_cast<MirrorComm*>(user);
      self->Gather(static_cast<const char*>(send), static_cast<char*>(recv), bytes);
      self->last_stream = stream;
      return self->error;
    };
    ops.abort = [](void* user) { ++static_cast<MirrorComm*>(user)->aborts; };
    REQUIRE(Communicator::Create(ops, &comm_).ok());
  }
  Communicator* get() const { return comm_.get(); }
  std::shared_ptr<Communicator> shared() const { return comm_; }

  // If `change` is set, each collective calls it for the segment of every rank (`from`), including this rank. `change`
  // may modify the segment. call: the number of the collective, counted from 1.
  std::function<void(int64_t call, int from, char* segment, size_t bytes)> change;
  // Sets `change` to a function that applies `edit` to each segment of a rank.
  void ChangeFrom(int rank, const std::function<void(char* segment)>& edit) {
    change = [rank, edit](int64_t, int from, char* segment, size_t) {
      if (from == rank) edit(segment);
    };
  }
  // Sets `change` to a function that writes `number` into each segment of a rank, `at` bytes after its start.
  template <typename Integer>
  void PutFrom(int rank, size_t at, Integer number) {
    ChangeFrom(rank, [at, number](char* segment) { Put(segment, at, number); });
  }
  int64_t calls = 0;
  int aborts = 0;
  int32_t error = 0;  // the result of all_gather
  void* last_stream = nullptr;

 private:
  void Gather(const char* send, char* recv, size_t bytes) {
    ++calls;
    for (int from = 0; from < world_; ++from) {
      char* const segment = recv + static_cast<size_t>(from) * bytes;
      if (from != rank_) std::memcpy(segment, send, bytes);
    }
    for (int from = 0; from < world_ && change; ++from) {
      change(calls, from, recv + static_cast<size_t>(from) * bytes, bytes);
    }
  }

  int world_, rank_;
  std::shared_ptr<Communicator> comm_;
};

// Checks that the code is Code::kComm, and that the message contains `says`, the word "expected", and two fragments of
// kCheckRanks (core/comm/received.h), which describes the next step.
inline void CheckCommError(const Status& status, const std::string& says) {
  for (const std::string& part :
       {says, std::string("expected"), std::string("same build"), std::string("the communicator")}) {
    CheckError(status, Code::kComm, part);
  }
}

// Returns a communicator that has one rank and takes memory of a device.
inline std::shared_ptr<Communicator> MakeDeviceComm() {
  CommOps ops;
  ops.takes_device_memory = true;
  ops.all_gather = [](void*, const void*, void*, size_t, void*) { return int32_t{0}; };
  std::shared_ptr<Communicator> comm;
  CheckOk(Communicator::Create(ops, &comm));
  return comm;
}

}  // namespace shampoo
