// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <utility>

#include "tests/cuda/fake/state.h"

namespace shampoo::cuda_fake {
namespace {

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

// Runs work before a query, as fake_cuda_set_query_progress() specifies. If `record` is NULL, the query is for the
// stream. Otherwise the query is for an event with this record.
void ProgressForQuery(const std::shared_ptr<Stream>& stream, const Record* record) {
  State& state = TheState();
  if (state.query_progress > 0) state.streams.Progress(state.query_progress);
  if (state.query_progress >= 0) return;
  if (record != nullptr) {
    state.streams.Finish(*record);
  } else {
    state.streams.Finish(stream);
  }
}

// Return an error and invalidate the capture if the stream is being captured, or if the last record of the event was
// captured. The host must neither wait for captured work nor query captured work.
cudaError_t CheckNotCaptured(const std::shared_ptr<Stream>& stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture == nullptr) return cudaSuccess;
  stream->capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t CheckNotCaptured(const std::shared_ptr<Event>& event) {
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (event->record == nullptr || event->record->capture == nullptr) return cudaSuccess;
  event->record->capture->invalid = true;
  return cudaErrorCapturedEvent;
}

// Returns whether another thread has set FAKE_CUDA_SOLVER_IS_HELD.
bool IsHeldElsewhere() {
  const std::unique_lock<std::recursive_mutex> lock(TheMutex());
  return TheState().solver == FAKE_CUDA_SOLVER_IS_HELD && TheState().holder != std::this_thread::get_id();
}

cudaError_t CreateStream(cudaStream_t* out, unsigned flags, int priority = kLeastPriority) {
  if (out == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) return cudaErrorInvalidValue;
  State& state = TheState();
  const bool blocking = (flags & cudaStreamNonBlocking) == 0;
  *out = state.stream_handles.Add(state.streams.Create(CurrentDevice(), blocking, priority));
  return cudaSuccess;
}

}  // namespace
}  // namespace shampoo::cuda_fake

using namespace shampoo::cuda_fake;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned int flags) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  return Call::Cuda(CreateStream(out, flags));
}

// In the fake, priorities do not change the order of work: results must be correct in every order that events allow.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned int flags, int priority) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  if (priority > kLeastPriority || priority < kGreatestPriority) return Call::Cuda(cudaErrorInvalidValue);
  return Call::Cuda(CreateStream(out, flags, priority));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* out) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  return Call::Cuda(CreateStream(out, cudaStreamDefault));
}

// Work that was enqueued in the stream before this call still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const Call call(__func__, Call::kReleases);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Stream> stream = TheState().stream_handles.Find(handle);
  if (stream == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) stream->capture->invalid = true;
  stream->alive = false;
  TheState().stream_handles.Remove(handle);
  return Call::Cuda(TheState().fault);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const Call call(__func__, Call::kUnsafe | Call::kSynchronizes);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle, CurrentDevice());
  if (const cudaError_t error = CheckNotCaptured(stream); error != cudaSuccess) return Call::Cuda(error);
  TheState().streams.Finish(stream);
  return Call::Cuda(TheState().fault);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Call call(__func__, Call::kUnsafe | Call::kQuery);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle, CurrentDevice());
  if (const cudaError_t error = CheckNotCaptured(stream); error != cudaSuccess) return Call::Cuda(error);
  ProgressForQuery(stream, nullptr);
  if (TheState().fault != cudaSuccess) return Call::Cuda(TheState().fault);
  return Call::Cuda(stream->queue.empty() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned int flags) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  if (out == nullptr || flags > 7) return Call::Cuda(cudaErrorInvalidValue);
  *out = TheState().events.Add(std::make_shared<Event>(Event{CurrentDevice(), flags, nullptr}));
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  const Call call(__func__, Call::kReleases);
  if (call.over()) return call.Cuda();
  return Call::Cuda(TheState().events.Remove(handle) ? TheState().fault : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Event> event = TheState().events.Find(handle);
  if (event == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  const std::shared_ptr<Stream> stream = Call::StreamOf(stream_handle, event->device);
  if (stream == nullptr || stream->device != event->device) return Call::Cuda(cudaErrorInvalidResourceHandle);
  return Call::Cuda(TheState().streams.RecordEvent(event.get(), stream));
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  const Call call(__func__, Call::kUnsafe | Call::kQuery);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Event> event = TheState().events.Find(handle);
  if (const cudaError_t error = CheckNotCaptured(event); error != cudaSuccess) return Call::Cuda(error);
  if (event->record == nullptr) return cudaSuccess;
  ProgressForQuery(nullptr, event->record.get());
  if (TheState().fault != cudaSuccess) return Call::Cuda(TheState().fault);
  return Call::Cuda(event->record->done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  if (IsHeldElsewhere()) WaitWhileHeld();
  const Call call(__func__, Call::kUnsafe | Call::kSynchronizes);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Event> event = TheState().events.Find(handle);
  if (const cudaError_t error = CheckNotCaptured(event); error != cudaSuccess) return Call::Cuda(error);
  if (event->record != nullptr) TheState().streams.Finish(*event->record);
  return Call::Cuda(TheState().fault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned int flags) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Event> event = TheState().events.Find(handle);
  const std::shared_ptr<Stream> stream = Call::StreamOf(stream_handle, CurrentDevice());
  if (event == nullptr || stream == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  if (flags > 1) return Call::Cuda(cudaErrorInvalidValue);
  return Call::Cuda(TheState().streams.WaitEvent(stream, *event));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle, CurrentDevice());
  if (stream == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  if (status == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  if (TheState().streams.CaptureInTheWay(*stream) != nullptr) return Call::Cuda(cudaErrorStreamCaptureImplicit);
  *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
            : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                       : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle, CurrentDevice());
  if (stream == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) {
    return Call::Cuda(cudaErrorInvalidValue);
  }
  return Call::Cuda(TheState().streams.BeginCapture(stream, mode));
}

// With a valid mode, cudaThreadExchangeStreamCaptureMode() cannot fail. fake_cuda_fail() therefore does not count calls
// of this function.
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal || *mode > cudaStreamCaptureModeRelaxed) {
    return Call::Cuda(cudaErrorInvalidValue);
  }
  const std::unique_lock<std::recursive_mutex> lock(TheMutex());
  std::swap(*mode, ThreadCaptureMode());
  if (ThreadCaptureMode() == cudaStreamCaptureModeGlobal && *mode != cudaStreamCaptureModeGlobal) {
    ++TheState().ended_sections[std::this_thread::get_id()];
    NotifyAll();
  }
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Stream> stream = Call::StreamOf(handle, CurrentDevice());
  if (stream == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  if (graph == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  *graph = nullptr;
  Nodes nodes;
  const cudaError_t error = TheState().streams.EndCapture(stream, &nodes);
  if (error == cudaSuccess) *graph = TheState().graphs.Add(std::make_shared<Nodes>(std::move(nodes)));
  return Call::Cuda(error);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t handle, unsigned long long flags) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Nodes> graph = TheState().graphs.Find(handle);
  if (out == nullptr || graph == nullptr || flags > 15) return Call::Cuda(cudaErrorInvalidValue);
  *out = TheState().graph_execs.Add(std::make_shared<Nodes>(*graph));
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  const Call call(__func__, Call::kNone);
  if (call.over()) return call.Cuda();
  const std::shared_ptr<Nodes> exec = TheState().graph_execs.Find(handle);
  const std::shared_ptr<Stream> stream = Call::StreamOf(stream_handle, CurrentDevice());
  if (exec == nullptr) return Call::Cuda(cudaErrorInvalidValue);
  if (stream == nullptr) return Call::Cuda(cudaErrorInvalidResourceHandle);
  return Call::Cuda(TheState().streams.Enqueue(stream, [nodes = *exec] { RunNodes(*nodes); }));
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  const Call call(__func__, Call::kReleases);
  if (call.over()) return call.Cuda();
  return Call::Cuda(TheState().graphs.Remove(handle) ? TheState().fault : cudaErrorInvalidValue);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  const Call call(__func__, Call::kReleases);
  if (call.over()) return call.Cuda();
  return Call::Cuda(TheState().graph_execs.Remove(handle) ? TheState().fault : cudaErrorInvalidValue);
}

}  // extern "C"
