// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

// A CUDA graph of captured work, such as a step.
class Graph {
 public:
  template <typename Work>
  Graph(cudaStream_t stream, const Work& work) : stream_(stream) {
    MustCuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    work();
    MustCuda(cudaStreamEndCapture(stream_, &graph_));
    MustCuda(cudaGraphInstantiate(&exec_, graph_, 0));
  }
  // Captures a step and, unless `set` is nullptr, a memset of the four bytes at `set` to 0. Checks that the step
  // returns `status`, and that the last error message contains `says`.
  explicit Graph(Model* model, shampoo_status status = SHAMPOO_OK, const std::string& says = "", void* set = nullptr)
      : Graph(model->stream, [&] {
          CheckError(model->TryStep(), status, says);
          if (set != nullptr) MustCuda(cudaMemsetAsync(set, 0, 4, model->stream));
        }) {}
  ~Graph() {
    (void)cudaGraphExecDestroy(exec_);
    (void)cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void Launch() const { MustCuda(cudaGraphLaunch(exec_, stream_)); }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

// Checks that `captured` has made `steps` successful steps, including replays of a graph, and that its parameters and
// states are bit-identical to those of `plain`.
inline void CheckReplayed(const Model& captured, const Model& plain, double steps) {
  captured.MustSucceed();
  CHECK(captured.Stat("steps") == steps);
  CHECK(BitsOf(captured) == BitsOf(plain));
}

// Makes steps 2 to `last` of two models that have made the same first step, and checks that the models are then
// bit-identical. The steps of `captured` are replays of one captured step.
inline void StepAndReplay(Model* plain, Model* captured, uint64_t last) {
  captured->FillGradients(2);
  const Graph graph(captured);
  for (uint64_t t = 2; t <= last; ++t) {
    plain->Step(t);
    captured->FillGradients(t);
    graph.Launch();
  }
  CheckReplayed(*captured, *plain, static_cast<double>(last));
}

}  // namespace shampoo_test
