// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/streams.h"

#include <algorithm>

#include "tests/cuda/fake/state.h"

namespace shampoo::cuda_fake {

Streams::Streams(int devices) {
  for (int device = 0; device < devices; ++device) {
    streams_.push_back(std::make_shared<Stream>());
    streams_.back()->device = device;
    streams_.back()->is_legacy = true;
  }
}

// Breaks cycles of shared pointers: a stream refers to its operations, which refer to streams through records of
// events. A stream also refers to its capture, which refers to the stream.
Streams::~Streams() {
  for (const std::shared_ptr<Stream>& stream : streams_) {
    stream->queue.clear();
    stream->capture = nullptr;
  }
}

std::shared_ptr<Stream> Streams::Create(int device, bool blocking, int priority) {
  DropFinished();
  auto stream = std::make_shared<Stream>();
  stream->device = device;
  stream->created = next_created_++;
  stream->blocking = blocking;
  stream->priority = priority;
  streams_.push_back(stream);
  return stream;
}

int64_t Streams::CountOfPriority(int priority) const {
  return std::count_if(streams_.begin(), streams_.end(), [priority](const std::shared_ptr<Stream>& stream) {
    return stream->alive && !stream->is_legacy && stream->priority == priority;
  });
}

void Streams::DropFinished() {
  const auto gone = [](const std::shared_ptr<Stream>& stream) { return !stream->alive && stream->queue.empty(); };
  streams_.erase(std::remove_if(streams_.begin(), streams_.end(), gone), streams_.end());
}

cudaError_t Streams::Enqueue(const std::shared_ptr<Stream>& stream, Work work) {
  if (const cudaError_t error = CheckLegacy(*stream); error != cudaSuccess) return error;
  if (stream->capture == nullptr) {
    stream->queue.push_back({next_sequence_++, std::move(work), nullptr, nullptr});
    return cudaSuccess;
  }
  Capture& capture = *stream->capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({stream->device, std::move(work), stream->frontier});
  stream->frontier = {capture.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t Streams::RecordEvent(Event* event, const std::shared_ptr<Stream>& stream) {
  auto record = std::make_shared<Record>();
  if (stream->capture != nullptr) {
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    record->capture = stream->capture;
    record->nodes = stream->frontier;
  } else {
    if (const cudaError_t error = CheckLegacy(*stream); error != cudaSuccess) return error;
    record->stream = stream;
    stream->queue.push_back({next_sequence_++, nullptr, nullptr, record});
  }
  event->record = std::move(record);
  return cudaSuccess;
}

cudaError_t Streams::WaitEvent(const std::shared_ptr<Stream>& stream, const Event& event) {
  if (const cudaError_t error = CheckLegacy(*stream); error != cudaSuccess) return error;
  const std::shared_ptr<Record>& record = event.record;
  Capture* const capture = stream->capture.get();
  if (capture != nullptr && capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (record == nullptr) return cudaSuccess;
  if (record->capture == nullptr) {
    if (capture != nullptr) {
      capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    stream->queue.push_back({next_sequence_++, nullptr, record, nullptr});
    return cudaSuccess;
  }
  if (!record->capture->active) return cudaErrorCapturedEvent;
  if (record->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (capture == nullptr) {
    if (stream->is_legacy) return cudaErrorStreamCaptureImplicit;
    stream->capture = record->capture;
    stream->frontier.clear();
    record->capture->streams.push_back(stream);
  } else if (capture != record->capture.get()) {
    capture->invalid = true;
    record->capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  stream->frontier.insert(stream->frontier.end(), record->nodes.begin(), record->nodes.end());
  std::sort(stream->frontier.begin(), stream->frontier.end());
  stream->frontier.erase(std::unique(stream->frontier.begin(), stream->frontier.end()), stream->frontier.end());
  return cudaSuccess;
}

std::shared_ptr<Stream> Streams::BlockerOf(const Stream& stream) const {
  const Operation& first = stream.queue.front();
  if (first.wait != nullptr && !first.wait->done) return first.wait->stream;
  if (!stream.blocking) return nullptr;
  for (const std::shared_ptr<Stream>& other : streams_) {
    if (other->device != stream.device || !other->blocking || other->is_legacy == stream.is_legacy) continue;
    if (!other->queue.empty() && other->queue.front().sequence < first.sequence) return other;
  }
  return nullptr;
}

void Streams::RunFirst(Stream* stream) {
  Operation first = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (first.record != nullptr) {
    first.record->done = true;
    first.record->time = std::chrono::steady_clock::now();
    first.record->stream = nullptr;
  }
  State& state = TheState();
  if (first.work == nullptr || state.fault != cudaSuccess) return;
  ++state.counts[FAKE_CUDA_OPERATIONS_RUN];
  state.memory.Open(stream->device);
  first.work();
}

std::shared_ptr<Stream> Streams::Pick(std::shared_ptr<Stream> target) {
  const auto ready = [&](const std::shared_ptr<Stream>& s) { return !s->queue.empty() && BlockerOf(*s) == nullptr; };
  switch (TheState().order) {
    case FAKE_CUDA_OLDEST_FIRST:
      return *std::find_if(streams_.begin(), streams_.end(), ready);
    case FAKE_CUDA_YOUNGEST_FIRST:
      return *std::find_if(streams_.rbegin(), streams_.rend(), ready);
    case FAKE_CUDA_RANDOM: {
      std::vector<const std::shared_ptr<Stream>*> all;
      for (const std::shared_ptr<Stream>& stream : streams_) {
        if (ready(stream)) all.push_back(&stream);
      }
      return *all[NextRandom() % all.size()];
    }
    default:
      while (const std::shared_ptr<Stream> blocker = BlockerOf(*target)) target = blocker;
      return target;
  }
}

void Streams::Finish(const std::shared_ptr<Stream>& stream) {
  const int64_t last = next_sequence_ - 1;
  while (!stream->queue.empty() && stream->queue.front().sequence <= last) RunFirst(Pick(stream).get());
  TheState().memory.Close();
}

void Streams::Finish(const Record& record) {
  while (!record.done) RunFirst(Pick(record.stream).get());  // record.stream is set until record.done
  TheState().memory.Close();
}

void Streams::FinishDevice(int device) {
  for (const std::shared_ptr<Stream>& stream : std::vector<std::shared_ptr<Stream>>(streams_)) {
    if (stream->device == device) Finish(stream);
  }
  DropFinished();
}

int64_t Streams::Progress(int64_t operations) {
  int64_t count = 0;
  for (; count < operations; ++count) {
    const auto waiting =
        std::find_if(streams_.rbegin(), streams_.rend(), [](const auto& s) { return !s->queue.empty(); });
    if (waiting == streams_.rend()) break;
    RunFirst(Pick(*waiting).get());
  }
  TheState().memory.Close();
  return count;
}

int64_t Streams::pending() const {
  size_t count = 0;
  for (const std::shared_ptr<Stream>& stream : streams_) count += stream->queue.size();
  return static_cast<int64_t>(count);
}

}  // namespace shampoo::cuda_fake
