// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// The fake of cudaEventElapsedTime(). The time of an event is the time of the host's clock when the stream reached the
// event.
#include "tests/cuda/fake/state.h"

using namespace shampoo::cuda_fake;

extern "C" {

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Call call(__func__, Call::kUnsafe);
  if (call.over()) return call.Cuda();
  if (milliseconds == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  const std::shared_ptr<Event> events[] = {TheState().events.Find(start), TheState().events.Find(end)};
  for (const std::shared_ptr<Event>& event : events) {
    if (event == nullptr || event->record == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
    if ((event->flags & cudaEventDisableTiming) != 0) return Call::Cuda(cudaErrorInvalidResourceHandle);
  }
  for (const std::shared_ptr<Event>& event : events) {
    if (!event->record->done) return Call::Cuda(cudaErrorNotReady);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(events[1]->record->time - events[0]->record->time).count();
  return cudaSuccess;
}

}  // extern "C"
