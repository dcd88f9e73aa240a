// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stage.h"
#include "tests/cuda/tools/stream_comm.h"

namespace shampoo_test {

// Returns the specification of a model that refreshes its inverse roots at steps 5 and 10.
inline ModelSpec SpecOfKind(const RankKind& kind, const Keys& more = {}) {
  ModelSpec spec = FiveShapes(Keys("precondition_frequency=5") + kind.keys() + more);
  // With StreamComm, all ranks must send equally many bytes. Therefore all replicas own blocks of the same shapes, and
  // both shards of each parameter have the same size.
  spec.params = {{{4, 4}}, {{4, 4}}, {{6}}, {{6}}, {{2, 3, 4}}, {{2, 3, 4}}, {{6, 6}}, {{6, 6}}};
  return spec;
}

// One rank whose collectives can be captured into a CUDA graph. See RankComms for Comm and args.
template <typename Comm = StreamComm>
struct StreamRank {
  template <typename... Args>
  StreamRank(const RankKind& kind, const Keys& more, cudaStream_t stream, Args... args)
      : comms(kind, args...), model(comms.Join(SpecOfKind(kind, more)), stream) {}

  RankComms<Comm> comms;
  Model model;
};

// Makes steps 1 to 9, and calls before(t) before each step t. Captures step 7 into a graph. Steps 7 to 9 are replays of
// this graph. Returns the graph.
template <typename Before>
std::unique_ptr<Graph> StepAndReplay(Model* model, const Before& before) {
  std::unique_ptr<Graph> graph;
  for (uint64_t t = 1; t <= 9; ++t) {
    CAPTURE(t);
    before(t);
    model->FillGradients(t);
    if (t == 7) graph = std::make_unique<Graph>(model);
    if (t < 7) {
      model->Step();
    } else {
      graph->Launch();
    }
  }
  return graph;
}

}  // namespace shampoo_test
