// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests methods in eigenbases (soap and kl_shampoo): missing gradients, loaded kernels, track_times, captured
// steps, overwritten counters, and steps that neither wait nor allocate.

#include "tests/cuda/contract/rank_steps.h"
#include "tests/cuda/tools/graph.h"
#include "tests/cuda/tools/stream_rank.h"

namespace shampoo_test {
namespace {

const Keys kBasisMethods[] = {{{"method", "soap"}},
                              {{"method", "soap"}, {"factor_correction", "kl"}},
                              {{"method", "kl_shampoo"}},
                              {{"method", "soap"}, {"basis_method", "qr"}},
                              {{"method", "soap"}, {"soap_post", "orthogonalize"}},
                              {{"soap_post", "orthogonalize"}, {"orthogonalization", "exact"}, {"method", "soap"}}};

// The eigenbases of a block are due at its first gradient and at every fifth gradient after the first.
ModelSpec SpecInBases(const Keys& more) {
  ModelSpec spec = FiveShapes();
  spec.keys = Keys("precondition_frequency=5 momentum=0.9") + more;
  return spec;
}

std::vector<std::string> StatesOf(const Model& model, const std::string& prefix) {
  std::vector<std::string> states;
  for (const std::string& key : model.Keys()) {
    if (key.rfind(prefix, 0) == 0) states.push_back(key);
  }
  return states;
}

TEST_CASE("a step leaves all states of a parameter without a gradient unchanged, including gradient_count") {
  for (const Keys& method : kBasisMethods) {
    const Stage stage;
    Model model(SpecInBases(method));
    model.Train(1, 6);
    const std::vector<double> param = model.ParamValues(0);
    std::vector<std::vector<double>> before;
    const std::vector<std::string> states = StatesOf(model, "p0/");
    REQUIRE(states.size() > 4);
    for (const std::string& state : states) before.push_back(model.State(state));
    model.DropGradient(0, true);
    model.Train(7, 12);
    CHECK(model.ParamValues(0) == param);
    for (size_t i = 0; i < states.size(); ++i) CHECK(model.State(states[i]) == before[i]);
    CHECK(model.State("p0/0/gradient_count") == std::vector<double>{6});
    CHECK(model.State("p1/0/gradient_count") == std::vector<double>{12});
  }
}

TEST_CASE("creating an optimizer loads all kernels that steps with eigenbases use" * NeedsFake()) {
  const Keys before = "basis_order=before start_preconditioning_step=2";
  for (const Keys& keys : {kBasisMethods[0], kBasisMethods[1], kBasisMethods[2], kBasisMethods[3], kBasisMethods[4],
                           kBasisMethods[5], kBasisMethods[5] + before + Keys("grafting=adam"),
                           kBasisMethods[0] + before + Keys("basis_method=qr grafting=adam"),
                           kBasisMethods[1] + before + Keys("kl_eigenvalues=basis basis_tolerance=0.1")}) {
    const Stage stage;
    ModelSpec spec = SpecInBases(keys + Keys("precondition_frequency=2 precondition_math=tf32"));
    spec.params.push_back({{70, 33}});
    spec.params.push_back({{40, 40}, SHAMPOO_F64, SHAMPOO_F64, SHAMPOO_F64});
    Model model(spec);
    fake_cuda_mark();
    model.Train(1, 6);
    model.MustSucceed();
    CHECK(fake_cuda_count(FAKE_CUDA_LOADS) == 0);
  }
}

TEST_CASE("with methods in eigenbases, track_times measures the time of each phase and does not change the results") {
  const Keys grafted =
      "basis_order=before factor_correction=kl kl_eigenvalues=basis grafting=adam precondition_frequency=1";
  const Keys grafted_post = kBasisMethods[5] + Keys("first_step=use precondition_frequency=1");
  for (const Keys& keys : {kBasisMethods[0], kBasisMethods[0] + grafted, kBasisMethods[4] + grafted, grafted_post}) {
    const Stage stage;
    std::string bits;
    for (const char* tracked : {"false", "true"}) {
      ModelSpec spec = SpecInBases(keys + Keys{{"track_times", tracked}});
      // Blocks of different groups are in different batches.
      for (size_t p = 0; p < 4; ++p) spec.params[p].group = static_cast<int32_t>(p) + 1;
      spec.groups.resize(4);
      Model model(spec);
      model.Train(1, 6);
      model.MustSucceed();
      for (const char* phase : {"check", "factor_update", "roots", "preconditioning", "elementwise"}) {
        CHECK((model.Stat((std::string("seconds.") + phase).c_str()) > 0) == (std::string(tracked) == "true"));
      }
      if (bits.empty()) bits = model.Bits();
      CHECK(model.Bits() == bits);
    }
  }
}

TEST_CASE("with a method in eigenbases, a replay makes a step, or is rejected if eigenbases are due") {
  for (const Keys& method : kBasisMethods) {
    const StageWithStream stream;
    Model plain(SpecInBases(method), stream);
    Model captured(SpecInBases(method + Keys("status_lag=0")), stream);
    plain.Step(1);
    captured.Step(1);
    captured.FillGradients(2);
    const Graph graph(&captured);
    for (uint64_t t = 2; t <= 9; ++t) {
      CAPTURE(t);
      plain.Step(t);
      if (t == 6) {
        captured.Step(t);
        continue;
      }
      captured.FillGradients(t);
      graph.Launch();
    }
    captured.Wait();
    CHECK(captured.Bits() == plain.Bits());
    // At step 11, eigenbases are due, so the device rejects the second replay.
    plain.Step(10);
    captured.FillGradients(10);
    graph.Launch();
    graph.Launch();
    captured.Wait();
    CHECK(captured.Bits() == plain.Bits());
    CheckError(captured.Status(), SHAMPOO_E_STATE,
               "a captured step was replayed as step 11 of group 0, at which eigenbases are due");
    captured.Step(11);
    plain.Step(11);
    CHECK(captured.Bits() == plain.Bits());
  }
}

TEST_CASE("a step at which eigenbases are due cannot be captured") {
  StagedModel model(SpecInBases(kBasisMethods[0]));
  model.FillGradients(1);
  const Graph first(&model, SHAMPOO_E_STATE, "eigenbases of group 0 are due at step 1 (precondition_frequency=5)");
  model.Train(1, 5);
  model.FillGradients(6);
  const Graph sixth(&model, SHAMPOO_E_STATE, "eigenbases of group 0 are due at step 6 (precondition_frequency=5)");
  model.Train(6, 7);
  CHECK(model.State("p0/0/gradient_count") == std::vector<double>{7});
}

TEST_CASE("if a program overwrites gradient_count so that eigenbases become due, the next step is rejected") {
  const StageWithStream stream;
  const ModelSpec spec = SpecInBases(kBasisMethods[0] + Keys("status_lag=0"));
  const StateArena arena(spec, stream);
  Model model(arena.In(spec), stream);
  model.Train(1, 5);
  const DeviceBytes copy(arena.bytes());
  MustCuda(cudaMemcpyAsync(copy.get(), arena.get(), arena.bytes(), cudaMemcpyDeviceToDevice, stream));
  model.Train(6, 8);
  MustCuda(cudaMemcpyAsync(arena.get(), copy.get(), arena.bytes(), cudaMemcpyDeviceToDevice, stream));
  CheckError(model.TryStep(9), SHAMPOO_E_STATE, "/gradient_count\" is not what the previous step left");
  CHECK(model.State("p0/0/gradient_count") == std::vector<double>{5});
  model.Step(6);  // succeeds, because the host reads the counters again after the error
  CHECK(model.State("p0/0/gradient_count") == std::vector<double>{6});
}

// Makes steps 1 to 7. Steps 1 and 6 compute eigenbases. Checks that no step waits or allocates.
void CheckStepsStayOnDevice(Model* model) {
  for (uint64_t t = 1; t <= 7; ++t) {
    CAPTURE(t);
    model->FillGradients(t);
    fake_cuda_mark();
    model->Step();
    CHECK(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS) == 0);
    CheckNoCopiesOrAllocations();
    if (t == 6) CHECK(fake_cuda_launches_of("StoreBases") > 0);
  }
  model->MustSucceed();
  CHECK(model->Stat("steps") == 7);
}

TEST_CASE("a step that computes eigenbases neither waits nor allocates" * NeedsFake()) {
  for (const Keys& method : kBasisMethods) {
    for (const Keys& lag : kLags) {
      CAPTURE(method + lag);
      StagedModel model(SpecInBases(method + lag), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      fake_cuda_set_query_progress(-1);
      CheckStepsStayOnDevice(&model);
    }
  }
}

TEST_CASE("a step of several ranks that computes eigenbases neither waits nor allocates" * NeedsFake()) {
  for (const RankKind& kind : {RankKind{"local", 1, 2}, {"gather", 1, 2}, {"gather", 2, 2, true, "64"}}) {
    for (const Keys& method : kBasisMethods) {
      if (method.Value("soap_post") != "" && !kind.gathers()) continue;  // a plan rejects this combination
      INFO(NameOf(kind), " ", method);
      ModelSpec spec = SpecInBases(method + kind.keys());
      spec.params = SpecOfKind(kind).params;
      const RankComms<StreamComm> comms(kind);
      StagedModel model(comms.Join(spec), FAKE_CUDA_AS_LATE_AS_POSSIBLE);
      fake_cuda_set_query_progress(-1);
      CheckStepsStayOnDevice(&model);
    }
  }
}

TEST_CASE("several ranks cannot capture a step of a method in eigenbases") {
  const RankComms<StreamComm> comms(RankKind{"local", 2, 1});
  ModelSpec spec = SpecInBases(kBasisMethods[0]);
  spec.params = {{{4, 4}}, {{4, 4}}};
  StagedModel model(comms.Join(spec));
  model.Train(1, 2);
  model.FillGradients(3);
  const Graph graph(&model, SHAMPOO_E_STATE, "a step of several ranks with method=soap cannot be captured");
  model.Train(3, 4);
}

}  // namespace
}  // namespace shampoo_test
