// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/cuda/fake/state.h"

namespace shampoo::cuda_fake {

Capture* Streams::CaptureInTheWay(const Stream& stream) const {
  if (!stream.is_legacy) return nullptr;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    for (const std::shared_ptr<Stream>& captured : capture->streams) {
      if (captured->device == stream.device && captured->blocking) return capture.get();
    }
  }
  return nullptr;
}

cudaError_t Streams::CheckLegacy(const Stream& stream) {
  Capture* const capture = CaptureInTheWay(stream);
  if (capture == nullptr) return cudaSuccess;
  capture->invalid = true;
  return cudaErrorStreamCaptureImplicit;
}

bool Streams::InvalidateForUnsafeCall(bool waits_for_device) {
  const cudaStreamCaptureMode own = ThreadCaptureMode();
  bool any = false;
  for (const std::shared_ptr<Capture>& capture : captures_) {
    const bool forbids = capture->thread == std::this_thread::get_id()
                             ? capture->mode != cudaStreamCaptureModeRelaxed && own != cudaStreamCaptureModeRelaxed
                             : capture->mode == cudaStreamCaptureModeGlobal && own == cudaStreamCaptureModeGlobal;
    if (!forbids && !waits_for_device) continue;
    capture->invalid = true;
    any = true;
  }
  return any;
}

cudaError_t Streams::BeginCapture(const std::shared_ptr<Stream>& stream, cudaStreamCaptureMode mode) {
  if (stream->is_legacy) return cudaErrorStreamCaptureUnsupported;
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->streams = {stream};
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  stream->capture = capture;
  stream->frontier.clear();
  captures_.push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t Streams::EndCapture(const std::shared_ptr<Stream>& stream, Nodes* out) {
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  // Marks the nodes that precede the end of the origin stream. The other nodes are in streams that were not joined to
  // the origin stream.
  std::vector<char> joined(capture->nodes.size(), 0);
  for (const size_t node : stream->frontier) joined[node] = 1;
  for (size_t node = capture->nodes.size(); node-- > 0;) {
    if (joined[node] == 0) continue;
    for (const size_t before : capture->nodes[node].after) joined[before] = 1;
  }
  const bool all_joined = std::find(joined.begin(), joined.end(), 0) == joined.end();
  for (const std::shared_ptr<Stream>& captured : capture->streams) {
    captured->capture = nullptr;
    captured->frontier.clear();
  }
  capture->active = false;
  captures_.erase(std::find(captures_.begin(), captures_.end(), capture));
  // Breaks the references between streams and their capture, because events may keep the capture for a long time.
  capture->streams.clear();
  capture->origin = nullptr;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!all_joined) return cudaErrorStreamCaptureUnjoined;
  *out = std::make_shared<const std::vector<Node>>(std::move(capture->nodes));
  return cudaSuccess;
}

void RunNodes(const std::vector<Node>& nodes) {
  State& state = TheState();
  std::vector<size_t> missing(nodes.size());
  std::vector<std::vector<size_t>> followers(nodes.size());
  std::vector<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (const size_t before : nodes[i].after) followers[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    size_t pick = ready.size() - 1;
    if (state.order == FAKE_CUDA_OLDEST_FIRST) pick = 0;
    if (state.order == FAKE_CUDA_RANDOM) pick = NextRandom() % ready.size();
    const size_t node = ready[pick];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(pick));
    if (state.fault != cudaSuccess) return;
    state.memory.Open(nodes[node].device);
    nodes[node].work();
    for (const size_t follower : followers[node]) {
      if (--missing[follower] == 0) ready.push_back(follower);
    }
  }
}

}  // namespace shampoo::cuda_fake
