// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Several ranks: steps that are captured, and what a step does on the host.
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stream_comm.h"

namespace shampoo_test {
namespace {

struct Kind {
  const char* mode;  // shard_mode
  int copies, shards;
  bool has_all_to_all;
  const char* bucket = "0";  // comm_bucket_bytes
};
constexpr Kind kKinds[] = {{"local", 2, 1, false},        {"local", 1, 2, false},        {"local", 2, 2, false},
                           {"gather", 1, 2, false},       {"gather", 1, 2, true},        {"gather", 2, 2, false},
                           {"gather", 2, 2, true},        {"local", 2, 1, false, "64"},  {"local", 2, 2, false, "64"},
                           {"gather", 1, 2, false, "64"}, {"gather", 2, 2, false, "64"}, {"gather", 2, 2, true, "64"}};

// Roots at steps 5 and 10.
ModelSpec SpecOf(const Kind& kind, const Keys& more = {}) {
  ModelSpec spec = FiveShapes(
      Keys{{"precondition_frequency", "5"}, {"shard_mode", kind.mode}, {"comm_bucket_bytes", kind.bucket}} + more);
  // With StreamComm, all ranks must send equally many bytes. So copies own blocks of the same shapes, and both shards
  // of each parameter have the same size.
  spec.params = {{{4, 4}}, {{4, 4}}, {{6}}, {{6}}, {{2, 3, 4}}, {{2, 3, 4}}, {{6, 6}}, {{6, 6}}};
  return spec;
}

// One rank whose communicators can be captured.
struct StreamRank {
  StreamRank(const Kind& kind, const Keys& more, cudaStream_t stream)
      : comms(kind), model(comms.Join(SpecOf(kind, more)), stream) {
    model.FillParams(1);
  }

  RankComms<StreamComm> comms;
  Model model;
};

TEST_CASE("a step of several ranks can be captured over communicators that only enqueue work") {
  for (const Kind& kind : kKinds) {
    for (const char* lag : {"0", "1"}) {
      CAPTURE(std::string(kind.mode));
      CAPTURE(kind.copies);
      CAPTURE(kind.shards);
      CAPTURE(kind.has_all_to_all);
      CAPTURE(std::string(kind.bucket));
      CAPTURE(std::string(lag));
      const StageWithStream stream;
      StreamRank plain(kind, {{"status_lag", lag}}, stream);
      StreamRank captured(kind, {{"status_lag", lag}}, stream);
      std::unique_ptr<Graph> graph;
      for (uint64_t t = 1; t <= 9; ++t) {
        CAPTURE(t);
        plain.model.Step(t);
        captured.model.FillGradients(t);
        if (t == 7) graph = std::make_unique<Graph>(&captured.model);
        if (t < 7) {
          captured.model.Step();
        } else {
          graph->Launch();
        }
      }
      CHECK(BitsOf(captured.model) == BitsOf(plain.model));
      Must(shampoo_optimizer_status(captured.model.optimizer, 1, nullptr));
      CHECK(captured.model.Stat("steps") == 9);
    }
  }
}

TEST_CASE("a step of several ranks whose communicators wait cannot be captured, and the ranks continue") {
  for (const Kind& kind : kKinds) {
    CAPTURE(std::string(kind.mode));
    CAPTURE(kind.copies);
    CAPTURE(kind.shards);
    CAPTURE(kind.has_all_to_all);
    CAPTURE(std::string(kind.bucket));
    const Stage stage;
    DeviceRanks ranks(SpecOf(kind), kind.copies, kind.shards, nullptr, kind.has_all_to_all);
    ranks.FillParams(1);
    ranks.Train(1, 2);
    ranks.Status();
    REQUIRE(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    ranks.OnEvery([](int, Model* model) {
      MustCuda(cudaStreamBeginCapture(model->stream, cudaStreamCaptureModeThreadLocal));
      const shampoo_status status = model->TryStep();
      const std::string text = shampoo_last_error();
      cudaGraph_t graph = nullptr;
      (void)cudaStreamEndCapture(model->stream, &graph);
      CHECK(graph == nullptr);
      CHECK(text.find("of the communicator returned ") != std::string::npos);
      CHECK(text.find("while the stream is captured") != std::string::npos);
      return status;
    });
    for (int rank = 0; rank < ranks.world(); ++rank) CHECK(ranks.status(rank) == SHAMPOO_E_STATE);
    ranks.Train(3, 4);
    ranks.Status();
    CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
    for (int rank = 0; rank < ranks.world(); ++rank) CHECK(ranks[rank].Stat("steps") == 4);
  }
}

TEST_CASE("a step of several ranks neither waits nor allocates" * NeedsFake()) {
  for (const Kind& kind : kKinds) {
    for (const char* method : {"eigen", "cans"}) {
      CAPTURE(std::string(kind.mode));
      CAPTURE(kind.copies);
      CAPTURE(kind.shards);
      CAPTURE(kind.has_all_to_all);
      CAPTURE(std::string(kind.bucket));
      CAPTURE(std::string(method));
      const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      fake_cuda_set_query_progress(-1);
      StreamRank rank(kind, {{"root_method", method}}, stream);
      for (uint64_t t = 1; t <= 6; ++t) {
        CAPTURE(t);
        rank.model.FillGradients(t);
        fake_cuda_mark();
        rank.model.Step();
        CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 0);
        CHECK(fake_cuda_count(FAKE_CUDA_COPIES_TO_HOST) == 0);
        CHECK(fake_cuda_count(FAKE_CUDA_ALLOCATIONS) == 0);
        CHECK(fake_cuda_count(FAKE_CUDA_PAGEABLE_COPIES) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
