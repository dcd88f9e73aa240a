// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

// Streams, events and captured graphs of the fake CUDA, which runs the work of streams on the CPU (see control.h).
namespace shampoo::cuda_fake {

using Work = std::function<void()>;

struct Stream;
struct Capture;

// The result of one call of cudaEventRecord().
struct Record {
  bool done = false;
  std::chrono::steady_clock::time_point time;  // when `done` became true
  std::shared_ptr<Stream> stream;
  // Set only if the record was captured: the capture, and the indices of the nodes that precede the record.
  std::shared_ptr<Capture> capture;
  std::vector<size_t> nodes;
};

struct Event {
  int device;
  unsigned flags;
  std::shared_ptr<Record> record;  // the most recent record; nullptr if there is none
};

struct Operation {
  int64_t sequence;                // increases with each operation that is enqueued in any stream
  Work work;                       // empty if the operation records or awaits an event
  std::shared_ptr<Record> wait;    // the record to wait for, or nullptr
  std::shared_ptr<Record> record;  // the record that this operation completes, or nullptr
};

struct Stream {
  int device = 0;
  int64_t created = 0;
  int priority = 0;
  bool is_legacy = false;
  bool blocking = true;  // this stream and the legacy stream of its device wait for each other
  bool alive = true;     // false after cudaStreamDestroy()
  std::deque<Operation> queue;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> frontier;  // indices of the nodes that must run before the next captured node
};

struct Node {
  int device;
  Work work;
  std::vector<size_t> after;  // indices of the nodes that must run before this node
};
using Nodes = std::shared_ptr<const std::vector<Node>>;

struct Capture {
  std::shared_ptr<Stream> origin;
  std::vector<std::shared_ptr<Stream>> streams;  // including the origin
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
  std::shared_ptr<Stream> Create(int device, bool blocking, int priority = 0);
  // Returns the number of existing streams with this priority, without legacy streams.
  int64_t CountOfPriority(int priority) const;

  // Enqueues work in the stream. The memory of the stream's device is accessible while the work runs.
  cudaError_t Enqueue(const std::shared_ptr<Stream>& stream, Work work);
  cudaError_t RecordEvent(Event* event, const std::shared_ptr<Stream>& stream);
  cudaError_t WaitEvent(const std::shared_ptr<Stream>& stream, const Event& event);

  // Each of the Finish functions runs enqueued work, possibly also of other streams. Finish(record) returns when the
  // record is done. Finish(stream) returns when all work is done that was enqueued in the stream before the call.
  // FinishDevice() does the same for all streams of a device.
  void Finish(const std::shared_ptr<Stream>& stream);
  void Finish(const Record& record);
  void FinishDevice(int device);
  // Runs up to `operations` operations that are ready. Returns the number of operations that ran.
  int64_t Progress(int64_t operations);
  int64_t pending() const;

  cudaError_t BeginCapture(const std::shared_ptr<Stream>& stream, cudaStreamCaptureMode mode);
  cudaError_t EndCapture(const std::shared_ptr<Stream>& stream, Nodes* out);
  // Handles a call that is not allowed during a capture: invalidates the captures whose modes forbid the call, or all
  // captures if the call waits for the device. Returns whether any capture was invalidated.
  bool InvalidateForUnsafeCall(bool waits_for_device);
  // Returns a capture that any use of `stream` invalidates: `stream` is a legacy stream, and the capture contains a
  // blocking stream of the same device. Returns nullptr if there is no such capture.
  Capture* CaptureInTheWay(const Stream& stream) const;

 private:
  std::shared_ptr<Stream> Pick(std::shared_ptr<Stream> target);
  // Returns the stream that the first operation of `stream` waits for, or nullptr if the operation can run.
  std::shared_ptr<Stream> BlockerOf(const Stream& stream) const;
  void RunFirst(Stream* stream);
  void DropFinished();
  cudaError_t CheckLegacy(const Stream& stream);

  std::vector<std::shared_ptr<Stream>> streams_;  // includes streams with destroyed handles until their work is done
  std::vector<std::shared_ptr<Capture>> captures_;
  int64_t next_sequence_ = 1;
  int64_t next_created_ = 1;
};

// Runs the nodes in an order that respects their dependencies.
void RunNodes(const std::vector<Node>& nodes);

}  // namespace shampoo::cuda_fake
