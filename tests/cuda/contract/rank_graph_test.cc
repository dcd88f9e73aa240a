// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps of several ranks: which steps can be captured, and that steps neither wait for the device nor allocate
// memory.
#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stream_rank.h"

namespace shampoo_test {
namespace {

constexpr RankKind kKinds[] = {
    {"local", 2, 1, false},        {"local", 1, 2, false},        {"local", 2, 2, false},
    {"gather", 1, 2, false},       {"gather", 1, 2, true},        {"gather", 2, 2, false},
    {"gather", 2, 2, true},        {"local", 2, 1, false, "64"},  {"local", 2, 2, false, "64"},
    {"gather", 1, 2, false, "64"}, {"gather", 2, 2, false, "64"}, {"gather", 2, 2, true, "64"}};

TEST_CASE("a step of several ranks can be captured over communicators that only enqueue work") {
  for (const RankKind& kind : kKinds) {
    for (const Keys& lag : kLags) {
      INFO(NameOf(kind), " ", lag);
      const StageWithStream stream;
      StreamRank<> plain(kind, lag, stream);
      StreamRank<> captured(kind, lag, stream);
      const auto graph = StepAndReplay(&captured.model, [&](uint64_t t) { plain.model.Step(t); });
      CheckReplayed(captured.model, plain.model, 9);
    }
  }
}

TEST_CASE("if communicators wait for the stream, a step cannot be captured, and the ranks can continue") {
  for (const RankKind& kind : kKinds) {
    CAPTURE(NameOf(kind));
    const Stage stage;
    DeviceRanks ranks(SpecOfKind(kind), kind);
    ranks.Train(1, 2);
    ranks.MustSucceed();
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
    ranks.MustSucceed();
    for (const Model* model : ranks.models()) CHECK(model->Stat("steps") == 4);
  }
}

// Without root_async, only step 5 refreshes roots, because SpecOfKind() sets precondition_frequency to 5, and the
// preset of the tests (tests/preset.h) sets refresh_growth to 0. With root_async, steps 2, 4 and 6 refresh roots. The
// roots of step 2 are used immediately, because no older roots exist. The roots of step 4 are first used in step 5, and
// the roots of step 6 in step 7.
TEST_CASE("a step of several ranks neither waits for the device nor allocates memory" * NeedsFake()) {
  const Keys async = "root_async=1 precondition_frequency=2 refresh_growth=0";
  const Keys tracked = "track_times=true track_root_residuals=true";
  for (const RankKind& kind : kKinds) {
    for (const Keys& keys : {Keys("root_method=eigen"), Keys("root_method=cans"), Keys("root_method=eigen") + async,
                             Keys("root_method=cans") + tracked, Keys("root_method=eigen") + async + tracked}) {
      INFO(NameOf(kind), " ", keys);
      const StageWithStream stream(FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      fake_cuda_set_query_progress(-1);
      StreamRank<> rank(kind, keys, stream);
      for (uint64_t t = 1; t <= 7; ++t) {
        CAPTURE(t);
        rank.model.FillGradients(t);
        fake_cuda_mark();
        rank.model.Step();
        CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 0);
        CheckNoCopiesOrAllocations();
      }
      CHECK(rank.model.Stat("root_computed") > 0);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
