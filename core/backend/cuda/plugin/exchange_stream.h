// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/backend/cuda/plugin/cuda_handles.h"
#include "core/base/status.h"

namespace shampoo::cuda {

// A stream in which the data of one bucket are exchanged while the caller's stream works on the next bucket
// (docs/adr/0028). If Create() has not been called, Begin() returns the caller's stream, and the other functions do
// nothing.
//
//   caller:    compute 0 | Begin 0, compute 1 | Begin 1, Wait 0, apply 0, compute 2 | Begin 2, Wait 1, apply 1 ...
//   exchanges:              exchange 0, End 0    exchange 1, End 1
//
// There are only two events that record the end of an exchange. Therefore, call Wait() for bucket k - 2 before Begin()
// for bucket k.
class ExchangeStream {
 public:
  Status Create();

  // Returns in *out the stream for the exchange of a bucket. The exchange starts after all earlier work in the caller's
  // stream.
  Status Begin(cudaStream_t caller, cudaStream_t* out);
  // Records the end of the exchange of a bucket. Call this after the exchange has been enqueued.
  Status End(int32_t bucket);
  // Makes later work in the caller's stream wait for the exchange of the bucket.
  Status Wait(cudaStream_t caller, int32_t bucket);
  // Makes the caller's stream wait for all exchanges. Call this at the end of each step, even after a failure: before
  // this call, a capture must not end, and a step must not be reported as done.
  Status Join(cudaStream_t caller);

 private:
  OwnedStream stream_;
  OwnedEvent begun_;
  std::array<OwnedEvent, 2> ended_;  // [bucket % 2]: the end of the exchange of `bucket`
  int running_ = 0;                  // number of exchanges that the caller's stream does not wait for yet
};

}  // namespace shampoo::cuda
