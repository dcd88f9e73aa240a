// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

// Streams, events, and the graphs that are captured from them.
namespace shampoo::cuda_fake {

using Work = std::function<void()>;

struct Stream;
struct Capture;

// What one record of an event stands for.
struct Record {
  bool done = false;
  std::shared_ptr<Stream> stream;
  // In a capture: what it comes after.
  std::shared_ptr<Capture> capture;
  std::vector<size_t> nodes;
};

struct Event {
  int device;
  unsigned flags;
  std::shared_ptr<Record> record;  // the most recent one
};

struct Operation {
  int64_t sequence;              // of all calls
  Work work;                     // none for events
  std::shared_ptr<Record> wait;  // for this one
  std::shared_ptr<Record> record;
};

struct Stream {
  int device = 0;
  int64_t created = 0;
  bool is_legacy = false;
  bool blocking = true;  // waits for the legacy stream, and that for it
  bool alive = true;
  std::deque<Operation> queue;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> frontier;  // nodes that the next one comes after
};

struct Node {
  int device;
  Work work;
  std::vector<size_t> after;
};
using Nodes = std::shared_ptr<const std::vector<Node>>;

struct Capture {
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> streams;  // the origin among them
  std::vector<Node> nodes;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  bool active = true;
  bool invalid = false;
};

// All streams of a process, and the order in which their work runs.
class Streams {
 public:
  explicit Streams(int devices);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  std::shared_ptr<Stream> Legacy(int device) { return streams_[static_cast<size_t>(device)]; }
  std::shared_ptr<Stream> Create(int device, bool blocking);

  // Work in the order of the stream, which finds the memory of the stream's device open.
  cudaError_t Enqueue(const std::shared_ptr<Stream>& stream, Work work);
  cudaError_t RecordEvent(Event* event, const std::shared_ptr<Stream>& stream);
  cudaError_t WaitEvent(const std::shared_ptr<Stream>& stream, const Event& event);

  // Until all that was called for up to now is done.
  void Finish(const std::shared_ptr<Stream>& stream);
  void Finish(const Record& record);
  void FinishDevice(int device);
  // Up to so many operations that are ready; how many ran.
  int64_t Progress(int64_t operations);
  int64_t pending() const;

  cudaError_t BeginCapture(const std::shared_ptr<Stream>& stream, cudaStreamCaptureMode mode);
  cudaError_t EndCapture(const std::shared_ptr<Stream>& stream, Nodes* out);
  // A call that nobody may make during a capture; ends it.
  bool InvalidateForUnsafeCall();
  // Of the legacy stream: a capture of one that waits for it, which a use of the legacy stream breaks.
  Capture* CaptureInTheWay(const Stream& stream) const;

 private:
  std::shared_ptr<Stream> Pick(std::shared_ptr<Stream> target);
  // What the first operation of the stream waits for; nullptr if it can run.
  std::shared_ptr<Stream> BlockerOf(const Stream& stream) const;
  void RunFirst(Stream* stream);
  void DropFinished();
  cudaError_t CheckLegacy(const Stream& stream);

  std::vector<std::shared_ptr<Stream>> streams_;  // those of destroyed handles until they are done
  std::vector<std::shared_ptr<Capture>> captures_;
  int64_t next_sequence_ = 1;
  int64_t next_created_ = 1;
};

// In an order that the dependencies allow.
void RunNodes(const std::vector<Node>& nodes);

}  // namespace shampoo::cuda_fake
