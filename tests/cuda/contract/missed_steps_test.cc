// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// root_async if blocks miss steps: each block follows its own state on the device.
#include <unistd.h>

#include <filesystem>

#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {
namespace {

constexpr uint64_t kLast = 22;

// Roots are due at steps 5, 10, 15 and 20. They are used 3 steps later if the block already has roots.
ModelSpec MissingSteps(const Keys& more = {}) {
  Keys keys = {{"precondition_frequency", "5"}, {"root_async", "3"}, {"beta2", "0.9"}};
  keys.insert(keys.end(), more.begin(), more.end());
  return FiveShapes(keys);
}

bool HasGradient(size_t p, uint64_t t) {
  switch (p) {
    case 0:
      return t != 13;
    case 1:
      return t >= 6;
    case 2:
      return t % 5 == 0;
    case 3:
      return t != 10;
    case 4:
      return t < 13 || t > 15;
    default:  // the same shape as the first
      return t < 11 || t > 17;
  }
}

void Step(Model* model, uint64_t t) {
  model->FillGradients(t);
  for (size_t p = 0; p < model->params(); ++p) model->DropGradient(p, !HasGradient(p, t));
  model->Step();
}

std::string KeyOf(size_t p, const char* state) { return "p" + std::to_string(p) + "/0/" + state; }
double SnapshotStep(const Model& model, size_t p) { return model.State(KeyOf(p, "snapshot_step"))[0]; }

TEST_CASE("blocks that miss steps use the same roots as on the CPU, from the same steps on") {
  const Keys growing = {{"refresh_growth", "0.5"}, {"start_preconditioning_step", "2"}, {"root_spread", "true"}};
  for (const Keys& more : {Keys{}, Keys{{"root_spread", "true"}}, growing, Keys{{"root_method", "newton"}}}) {
    for (const uint64_t other_epsilon : {uint64_t{0}, uint64_t{13}, uint64_t{17}}) {
      for (const int order : {FAKE_CUDA_RANDOM, FAKE_CUDA_AS_LATE_AS_POSSIBLE}) {
        const Stage stage(order);
        const TestStream stream;
        Pair pair(MissingSteps(more), stream);
        for (uint64_t t = 1; t <= kLast; ++t) {
          pair.Each([&](Model& model) {
            // The roots that the device has computed are not used then.
            if (t == other_epsilon) Must(shampoo_optimizer_set(model.optimizer, 0, "epsilon", 0.5));
            Step(&model, t);
          });
          CAPTURE(more.size());
          CAPTURE(other_epsilon);
          CAPTURE(t);
          CHECK(pair.Apart() < 1e-3);
          for (size_t p = 0; p < pair.host.params(); ++p) {
            CHECK(SnapshotStep(pair.device, p) == SnapshotStep(pair.host, p));
          }
        }
        CHECK(pair.DifferingCounters() == "");
      }
    }
  }
}

TEST_CASE("the device uses the first roots at once, and waiting roots at the first step after the delay") {
  const Stage stage;
  const TestStream stream;
  Model model(MissingSteps(), stream);
  model.FillParams(1);
  struct Change {
    size_t p;
    uint64_t t;
    double snapshot_step;  // after step t. Step t changes the roots; the steps before and after it do not
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
    CAPTURE(change.p);
    CAPTURE(change.t);
    const auto& of = inverses[change.p];
    CHECK(of[change.t] != of[change.t - 1]);
    CHECK(of[change.t - 1] == of[change.t - 2]);
    CHECK(of[change.t + 1] == of[change.t]);
  }
}

TEST_CASE("steps between arenas, and from a checkpoint of any step, are bit-identical to steps in place") {
  const Stage stage;
  const TestStream stream;
  ModelSpec spec = MissingSteps();
  Model plain(spec, stream);
  Model moving(spec, stream);
  int64_t bytes = 0;
  Must(shampoo_plan_bytes(moving.plan, 0, "state", &bytes));
  const DeviceBytes arenas[] = {DeviceBytes(static_cast<size_t>(bytes)), DeviceBytes(static_cast<size_t>(bytes))};
  spec.state = arenas[1].get();
  spec.state_bytes = static_cast<size_t>(bytes);
  { const Model fresh(spec, stream); }
  spec.state = nullptr;
  plain.FillParams(1);
  moving.FillParams(1);
  const auto path = [](uint64_t t) {
    return (std::filesystem::temp_directory_path() /
            ("shampoo_missed_" + std::to_string(getpid()) + "_" + std::to_string(t)))
        .string();
  };
  std::vector<std::vector<std::vector<double>>> params(kLast + 1);
  for (uint64_t t = 1; t <= kLast; ++t) {
    CAPTURE(t);
    Must(shampoo_optimizer_bind_state(moving.optimizer, arenas[t % 2].get(), arenas[1 - t % 2].get()));
    Step(&plain, t);
    Step(&moving, t);
    CHECK(BitsOf(moving) == BitsOf(plain));
    std::filesystem::remove_all(path(t));
    Must(shampoo_save(&plain.optimizer, 1, nullptr, path(t).c_str(), stream));
    for (size_t p = 0; p < plain.params(); ++p) params[t].push_back(plain.ParamValues(p));
  }
  for (uint64_t from = 1; from < kLast; ++from) {
    CAPTURE(from);
    Model resumed(spec, stream);
    Must(shampoo_load(&resumed.optimizer, 1, nullptr, path(from).c_str(), stream));
    std::filesystem::remove_all(path(from));
    for (size_t p = 0; p < resumed.params(); ++p) resumed.SetParam(p, params[from][p]);
    for (uint64_t t = from + 1; t <= kLast; ++t) Step(&resumed, t);
    CHECK(BitsOf(resumed) == BitsOf(plain));
  }
  std::filesystem::remove_all(path(kLast));
}

TEST_CASE("a step that would use waiting roots is neither captured nor replayed") {
  const Stage stage;
  const TestStream stream;
  Model model(MissingSteps(), stream);
  model.FillParams(1);
  const auto fill = [&](uint64_t t, bool with_first) {
    model.FillGradients(t);
    model.DropGradient(0, !with_first);
    model.Bind();
  };
  for (uint64_t t = 1; t <= 12; ++t) {
    fill(t, true);
    model.Step();
  }
  fill(13, false);  // the first block keeps waiting
  model.Step();
  const auto capture = [&](cudaGraphExec_t* exec) {
    MustCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const shampoo_status status = model.TryStep();
    cudaGraph_t graph = nullptr;
    MustCuda(cudaStreamEndCapture(stream, &graph));
    if (exec != nullptr) MustCuda(cudaGraphInstantiate(exec, graph, 0));
    MustCuda(cudaGraphDestroy(graph));
    return status;
  };
  fill(14, true);
  CHECK(capture(nullptr) == SHAMPOO_E_STATE);
  CHECK(std::string(shampoo_last_error()).find("at step 14 of group 0 inverse roots are taken over") !=
        std::string::npos);
  // Without that block, this is an ordinary step.
  fill(14, false);
  cudaGraphExec_t without = nullptr;
  REQUIRE(capture(&without) == SHAMPOO_OK);
  MustCuda(cudaGraphLaunch(without, stream));
  CHECK(model.State("group.0/step")[0] == 14);
  MustCuda(cudaGraphExecDestroy(without));
  for (uint64_t t = 15; t <= 21; ++t) {
    fill(t, t != 15);
    model.Step();
  }
  CHECK(SnapshotStep(model, 0) == 20);
  // Captures and replays step 22 with all blocks, and replays it again at step 23, which uses roots.
  fill(22, true);
  cudaGraphExec_t with = nullptr;
  REQUIRE(capture(&with) == SHAMPOO_OK);
  MustCuda(cudaGraphLaunch(with, stream));
  CHECK(model.State("group.0/step")[0] == 22);
  MustCuda(cudaGraphLaunch(with, stream));
  CHECK(shampoo_optimizer_status(model.optimizer, 1, nullptr) == SHAMPOO_E_STATE);
  CHECK(std::string(shampoo_last_error()).find("due or taken over") != std::string::npos);
  CHECK(model.State("group.0/step")[0] == 22);
  fill(23, false);
  model.Step();
  // Captures another step; the first block has waited for more than the delay.
  fill(24, true);
  CHECK(capture(nullptr) == SHAMPOO_E_STATE);
  model.Step();
  CHECK(SnapshotStep(model, 0) == -20);
  MustCuda(cudaGraphExecDestroy(with));
}

TEST_CASE("a state with unexpected snapshots is rejected once") {
  const Stage stage;
  const TestStream stream;
  ModelSpec spec = MissingSteps();
  Model other(spec, stream);
  int64_t bytes = 0;
  Must(shampoo_plan_bytes(other.plan, 0, "state", &bytes));
  const DeviceBytes arena(static_cast<size_t>(bytes));
  const DeviceBytes others(static_cast<size_t>(bytes));
  spec.state_bytes = static_cast<size_t>(bytes);
  spec.state = arena.get();
  Model model(spec, stream);
  spec.state = others.get();
  Model source(spec, stream);
  for (Model* const one : {&model, &source}) {
    one->FillParams(1);
    for (uint64_t t = 1; t <= 12; ++t) {
      one->FillGradients(one == &source ? 50 + t : t);
      one->DropGradient(3, one == &source && t == 10);
      one->Step();
    }
  }
  MustCuda(cudaMemcpyAsync(arena.get(), others.get(), spec.state_bytes, cudaMemcpyDeviceToDevice, stream));
  for (size_t p = 0; p < model.params(); ++p) model.SetParam(p, source.ParamValues(p));
  model.FillGradients(13);
  source.FillGradients(13);
  model.Step();  // reports nothing yet
  CHECK(model.TryStep() == SHAMPOO_E_STATE);
  const std::string text = shampoo_last_error();
  CAPTURE(text);
  CHECK(text.find("\"p3/0/snapshot_step\" is not what the previous step left") != std::string::npos);
  CHECK(text.find("shampoo_optimizer_bind_state") != std::string::npos);
  CHECK(model.State("group.0/step")[0] == 12);
  // The next call reads the state, and does not use roots of the previous state.
  model.Step();
  source.Step();
  for (uint64_t t = 14; t <= kLast; ++t) {
    for (Model* const one : {&model, &source}) {
      one->FillGradients(t);
      one->Step();
    }
  }
  CHECK(BitsOf(model) == BitsOf(source));
}

TEST_CASE("a step that one rank rejects can be repeated on all ranks, also when snapshots are taken or used") {
  constexpr int kRanks = 3;
  for (const uint64_t rejected : {uint64_t{5}, uint64_t{10}, uint64_t{13}}) {
    CAPTURE(rejected);
    const Stage stage;
    DeviceRanks ranks(MissingSteps({{"status_lag", "0"}}), kRanks);
    ranks.FillParams(1);
    for (uint64_t t = 1; t <= 19; ++t) {
      ranks.FillGradients(t);
      if (t == rejected) {
        std::vector<double> bad = Sequence(77, ranks[1].elements(3));
        bad[2] = NAN;
        ranks[1].SetGradient(3, bad);
        ranks.Step();
        CHECK(ranks.Unless(SHAMPOO_E_NUMERIC) == "");
        ranks.FillGradients(t);
      }
      ranks.Step();
      CHECK(ranks.Unless(SHAMPOO_OK) == "");
      CHECK(ranks.SameParams());
      if (t != 5) continue;  // the first roots are used at once, also by the repeated step
      for (int rank = 0; rank < kRanks; ++rank) {
        for (const std::string& key : ranks[rank].Keys()) {
          if (key.ends_with("/snapshot_step")) CHECK(ranks[rank].State(key)[0] <= 0);
        }
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const std::string& key : ranks[rank].Keys()) {
        if (key.ends_with("/snapshot_step")) CHECK(ranks[rank].State(key)[0] == -15);
      }
    }
  }
}

TEST_CASE("blocks that miss steps give the same results on several ranks as on one") {
  constexpr int kRanks = 3;
  for (const char* lag : {"0", "1"}) {
    const Stage stage;
    const TestStream stream;
    ModelSpec spec = MissingSteps({{"status_lag", lag}, {"comm_bucket_bytes", "128"}});
    Model alone(spec, stream);
    DeviceRanks ranks(spec, kRanks);
    alone.FillParams(1);
    ranks.FillParams(1);
    for (uint64_t t = 1; t <= kLast; ++t) {
      Step(&alone, t);
      ranks.FillGradients(t);
      for (int rank = 0; rank < kRanks; ++rank) {
        for (size_t p = 0; p < alone.params(); ++p) ranks[rank].DropGradient(p, !HasGradient(p, t));
      }
      ranks.Step();
      CHECK(ranks.Unless(SHAMPOO_OK) == "");
    }
    ranks.Status();
    CHECK(ranks.Unless(SHAMPOO_OK) == "");
    const auto params = ranks.Params();
    for (size_t i = 0; i < params.size(); ++i) {
      CAPTURE(i);
      CHECK(Distance(params[i], alone.ParamValues(i % alone.params())) < 1e-6);
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const std::string& key : ranks[rank].Keys()) {
        if (key.ends_with("/snapshot_step")) CHECK(ranks[rank].State(key) == alone.State(key));
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
