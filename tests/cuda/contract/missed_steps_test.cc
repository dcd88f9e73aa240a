// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the key root_async with blocks that miss steps because they have no gradient. The state of each block on the
// device determines when the block uses new roots.
#include "tests/core/temporary_directory.h"
#include "tests/cuda/contract/async_roots.h"
#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

// Roots are due at steps 5, 10, 15 and 20. A block uses its first roots at once, and later roots after 3 steps. If
// older roots are still pending when roots are due, as at step 15 of parameter 2, the block uses the new roots at once.
constexpr uint64_t kLast = 22;

bool HasGradient(size_t p, uint64_t t) {
  const bool has_gradient[] = {t != 13, t >= 6,           t % 5 == 0,
                               t != 10, t < 13 || t > 15, t < 11 || t > 17};  // parameters 0 and 5 have equal shapes
  return has_gradient[p];
}

void Step(Model* model, uint64_t t) {
  model->FillGradients(t);
  for (size_t p = 0; p < model->params(); ++p) model->DropGradient(p, !HasGradient(p, t));
  model->Step();
}

std::string KeyOf(size_t p, const char* state) { return "p" + std::to_string(p) + "/0/" + state; }
// Returns 0 before the first roots, s > 0 while the roots of step s are pending, or -s after the block has begun to use
// the roots of step s.
double SnapshotStep(const Model& model, size_t p) { return model.State(KeyOf(p, "snapshot_step"))[0]; }

TEST_CASE("blocks that miss steps use the same roots as on the CPU, from the same steps on") {
  const Keys growing = "refresh_growth=0.5 start_preconditioning_step=2 root_spread=true";
  for (const Keys& more : {Keys{}, Keys("root_spread=true"), growing, Keys("root_method=newton")}) {
    for (const uint64_t other_epsilon : {uint64_t{0}, uint64_t{13}, uint64_t{17}}) {
      for (const int order : {FAKE_CUDA_RANDOM, FAKE_CUDA_AS_LATE_AS_POSSIBLE}) {
        const StageWithStream stream(order);
        Pair pair(AsyncRootsSpec(more), stream);
        for (uint64_t t = 1; t <= kLast; ++t) {
          pair.Each([&](Model& model) {
            // Pending roots were computed with the old epsilon. The step that puts them into use computes them again.
            if (t == other_epsilon) Must(shampoo_optimizer_set(model.optimizer, 0, "epsilon", 0.5));
            Step(&model, t);
          });
          INFO(more, ", other epsilon from step ", other_epsilon, ", step ", t);
          CHECK(pair.DifferingValues(1e-3) == "");
          for (size_t p = 0; p < pair.host.params(); ++p) {
            CHECK(SnapshotStep(pair.device, p) == SnapshotStep(pair.host, p));
          }
        }
        CHECK(pair.DifferingCounters() == "");
      }
    }
  }
}

TEST_CASE("a block uses its first roots immediately, and later roots from its first step after the delay") {
  StagedModel model(AsyncRootsSpec());
  struct Change {
    size_t p;
    uint64_t t;
    double snapshot_step;  // after step t, which changes the roots. Steps t - 1 and t + 1 keep the roots
  };
  const Change changes[] = {{0, 14, -10}, {1, 10, -10}, {2, 5, -5},  {2, 15, -15},
                            {3, 18, -15}, {4, 16, -10}, {5, 18, -10}};
  std::vector<std::vector<std::vector<double>>> inverses(model.params());  // by parameter and step
  const auto note = [&] {
    for (size_t p = 0; p < model.params(); ++p) inverses[p].push_back(model.State(KeyOf(p, "inverse.0")));
  };
  note();
  for (uint64_t t = 1; t <= kLast; ++t) {
    Step(&model, t);
    note();
    for (const Change& change : changes) {
      if (change.t == t) CHECK(SnapshotStep(model, change.p) == change.snapshot_step);
    }
  }
  for (const Change& change : changes) {
    INFO("parameter ", change.p, ", step ", change.t);
    const auto& roots = inverses[change.p];  // by step
    CHECK(roots[change.t] != roots[change.t - 1]);
    CHECK(roots[change.t - 1] == roots[change.t - 2]);
    CHECK(roots[change.t + 1] == roots[change.t]);
  }
}

TEST_CASE("results are bit-identical if steps alternate between two arenas or continue from a checkpoint") {
  const StageWithStream stream;
  const ModelSpec spec = AsyncRootsSpec();
  Model plain(spec, stream);
  Model moving(spec, stream);
  const StateArena arenas[] = {StateArena(spec, stream), StateArena(spec, stream)};
  const shampoo::TemporaryDirectory directory;
  const auto path = [&](uint64_t t) { return directory / std::to_string(t); };
  std::vector<std::vector<std::vector<double>>> params(kLast + 1);
  for (uint64_t t = 1; t <= kLast; ++t) {
    CAPTURE(t);
    Must(shampoo_optimizer_bind_state(moving.optimizer, arenas[t % 2].get(), arenas[1 - t % 2].get()));
    Step(&plain, t);
    Step(&moving, t);
    CHECK(BitsOf(moving) == BitsOf(plain));
    plain.Save(path(t));
    for (size_t p = 0; p < plain.params(); ++p) params[t].push_back(plain.ParamValues(p));
  }
  for (uint64_t from = 1; from < kLast; ++from) {
    CAPTURE(from);
    Model resumed(spec, stream);
    resumed.Load(path(from));
    for (size_t p = 0; p < resumed.params(); ++p) resumed.SetParam(p, params[from][p]);
    for (uint64_t t = from + 1; t <= kLast; ++t) Step(&resumed, t);
    CHECK(BitsOf(resumed) == BitsOf(plain));
  }
}

TEST_CASE("a step that would use pending roots is neither captured nor replayed") {
  StagedModel model(AsyncRootsSpec());
  const auto fill = [&](uint64_t t, bool with_first) {
    model.FillGradients(t);
    model.DropGradient(0, !with_first);
    model.Bind();
  };
  for (uint64_t t = 1; t <= 12; ++t) {
    fill(t, true);
    model.Step();
  }
  fill(13, false);  // the roots of the first block stay pending
  model.Step();
  fill(14, true);
  { const Graph empty(&model, SHAMPOO_E_STATE, "inverse roots of group 0 are put into use at step 14"); }
  // Without a gradient of the first block, step 14 puts no pending roots into use and can be captured.
  fill(14, false);
  const Graph without(&model);
  without.Launch();
  CHECK(model.State("group.0/step")[0] == 14);
  for (uint64_t t = 15; t <= 21; ++t) {
    fill(t, t != 15);
    model.Step();
  }
  CHECK(SnapshotStep(model, 0) == 20);
  // Captures step 22 with gradients of all blocks, and launches the graph twice. The device rejects the second replay,
  // because step 23 would put pending roots into use.
  fill(22, true);
  const Graph with(&model);
  with.Launch();
  CHECK(model.State("group.0/step")[0] == 22);
  with.Launch();
  CheckError(model.Status(), SHAMPOO_E_STATE,
             "but this step needs work that was not captured: it computes inverse roots");
  CHECK(model.State("group.0/step")[0] == 22);
  fill(23, false);
  model.Step();
  // Step 24 cannot be captured, because it puts the roots of the first block into use. Their delay has already passed.
  fill(24, true);
  { const Graph empty(&model, SHAMPOO_E_STATE); }
  model.Step();
  CHECK(SnapshotStep(model, 0) == -20);
}

TEST_CASE(
    "if the caller overwrites the state with other snapshots, one step is rejected and the next accepts the state") {
  const StageWithStream stream;
  const ModelSpec spec = AsyncRootsSpec();
  const StateArena arena(spec, stream);
  const StateArena others(spec, stream);
  Model model(arena.In(spec), stream);
  Model source(others.In(spec), stream);
  for (Model* const one : {&model, &source}) {
    for (uint64_t t = 1; t <= 12; ++t) {
      one->FillGradients(one == &source ? 50 + t : t);
      one->DropGradient(3, one == &source && t == 10);
      one->Step();
    }
  }
  MustCuda(cudaMemcpyAsync(arena.get(), others.get(), arena.bytes(), cudaMemcpyDeviceToDevice, stream));
  model.SetParamsOf(source);
  model.FillGradients(13);
  source.FillGradients(13);
  model.Step();  // does not report the error yet
  CheckError(model.TryStep(), SHAMPOO_E_STATE, "\"p3/0/snapshot_step\" is not what the previous step left");
  CHECK(std::string(shampoo_last_error()).find("shampoo_optimizer_bind_state") != std::string::npos);
  CHECK(model.State("group.0/step")[0] == 12);
  // The next step of `model` reads the state, and does not use roots of the previous state.
  model.Step();
  source.Step();
  for (Model* const one : {&model, &source}) one->Train(14, kLast);
  CHECK(BitsOf(model) == BitsOf(source));
}

// Calls check(key, value) for the state snapshot_step of every block of every rank.
template <typename Check>
void ForEachSnapshotStep(DeviceRanks* ranks, const Check& check) {
  for (const Model* model : ranks->models()) {
    for (const std::string& key : model->Keys()) {
      if (key.ends_with("/snapshot_step")) check(key, model->State(key)[0]);
    }
  }
}

TEST_CASE("a step that one rank rejects can be repeated on all ranks, even if it takes snapshots or uses new roots") {
  constexpr int kRanks = 3;
  for (const uint64_t rejected : {uint64_t{5}, uint64_t{10}, uint64_t{13}}) {
    CAPTURE(rejected);
    const Stage stage;
    DeviceRanks ranks(AsyncRootsSpec("status_lag=0"), kRanks);
    for (uint64_t t = 1; t <= 19; ++t) {
      ranks.FillGradients(t);
      if (t == rejected) {
        ranks[1].SpoilGradient(3, 2, NAN);
        ranks.CheckStep(SHAMPOO_E_NUMERIC);
        ranks.FillGradients(t);
      }
      ranks.CheckStep();
      CHECK(ranks.SameParams());
      if (t != 5) continue;  // the first roots are used at once and never pending
      ForEachSnapshotStep(&ranks, [](const std::string&, double step) { CHECK(step <= 0); });
    }
    ForEachSnapshotStep(&ranks, [](const std::string&, double step) { CHECK(step == -15); });
  }
}

TEST_CASE("blocks that miss steps give the same results on several ranks as on one") {
  constexpr int kRanks = 3;
  for (const Keys& lag : kLags) {
    CAPTURE(lag);
    const ModelSpec spec = AsyncRootsSpec(lag + Keys("comm_bucket_bytes=128"));
    StagedModel alone(spec);
    DeviceRanks ranks(spec, kRanks);
    for (uint64_t t = 1; t <= kLast; ++t) {
      Step(&alone, t);
      ranks.FillGradients(t);
      for (Model* model : ranks.models()) {
        for (size_t p = 0; p < alone.params(); ++p) model->DropGradient(p, !HasGradient(p, t));
      }
      ranks.CheckStep();
    }
    ranks.MustSucceed();
    ranks.CheckParams(alone);
    ForEachSnapshotStep(&ranks, [&](const std::string& key, double step) { CHECK(step == alone.State(key)[0]); });
  }
}

}  // namespace
}  // namespace shampoo_test
