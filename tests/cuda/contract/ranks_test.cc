// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps of several replicas: if one rank finds an error or has different inputs, all ranks report the same error.
#include "tests/cuda/contract/rank_steps.h"

namespace shampoo_test {
namespace {

constexpr int kRanks = 3;

// An error or a different input on some ranks, and the error that all ranks must report.
struct Odd {
  const char* what;
  Keys keys;
  shampoo_status status;
  std::vector<std::string> words;
  std::function<void(DeviceRanks& ranks)> spoil;
  std::function<void(DeviceRanks& ranks)> mend = [](DeviceRanks&) {};
};

const std::vector<Odd> kOdd = {
    {"NaN",
     {},
     SHAMPOO_E_NUMERIC,
     {"rank 1: the gradient of parameter \"p3\"", "has NaN", "element 17"},
     [](DeviceRanks& ranks) { ranks[1].SpoilGradient(3, 17, NAN); }},
    {"an infinity",
     {},
     SHAMPOO_E_NUMERIC,
     {"rank 2: the gradient of parameter \"p0\"", "has an infinity"},
     [](DeviceRanks& ranks) { ranks[2].SpoilGradient(0, 0, kInfinity); }},
    {"errors on two ranks",
     {},
     SHAMPOO_E_NUMERIC,
     {"rank 1: the gradient of parameter \"p1\"", "has NaN"},
     [](DeviceRanks& ranks) {
       ranks[1].SpoilGradient(1, 2, NAN);
       ranks[2].SpoilGradient(4, 3, NAN);
     }},
    {"a block that is skipped",
     {{"on_nonfinite", "skip_block"}},
     SHAMPOO_E_NUMERIC,
     {"the blocks with gradients that are too large or not finite differ between rank 1 and rank 0",
      "Gradients must be the same on all ranks"},
     [](DeviceRanks& ranks) { ranks[1].SpoilGradient(3, 17, NAN); }},
    {"a step that is skipped",
     {{"on_nonfinite", "skip_step"}},
     SHAMPOO_E_NUMERIC,
     {"the blocks with gradients that are too large or not finite differ between rank 1 and rank 0"},
     [](DeviceRanks& ranks) {
       ranks[1].SpoilGradient(3, 17, NAN);
       ranks[2].SpoilGradient(3, 17, NAN);
     }},
    {"a state that overflows",
     {{"factor_dtype", "f16"}},
     SHAMPOO_E_NUMERIC,
     {"rank ", ": the gradient of parameter \"p3\" is too large"},
     [](DeviceRanks& ranks) {
       for (int rank = 0; rank < kRanks; ++rank) ranks[rank].SpoilGradient(3, 5, 300);
     }},
    {"a gradient that is missing",
     {},
     SHAMPOO_E_INVALID,
     {"rank 1 has no gradient for parameter \"p2\" and rank 0 has a gradient"},
     [](DeviceRanks& ranks) { ranks[1].DropGradient(2, true); },
     [](DeviceRanks& ranks) { ranks[1].DropGradient(2, false); }},
    {"a different learning rate",
     {},
     SHAMPOO_E_INVALID,
     {"rank 2 has a different learning rate"},
     [](DeviceRanks& ranks) { Must(shampoo_optimizer_set(ranks[2].optimizer, 0, "lr", 0.5)); },
     [](DeviceRanks& ranks) { Must(shampoo_optimizer_set(ranks[2].optimizer, 0, "lr", 0.25)); }},
    {"a step counter that the host rejects",
     {},
     SHAMPOO_E_STATE,
     {"rank 2: the state \"group.0/step\" is -5"},
     [](DeviceRanks& ranks) { ranks[2].SetState("group.0/step", {-5}); },
     [](DeviceRanks& ranks) { ranks[2].SetState("group.0/step", {2}); }},
    {"a different step",
     {},
     SHAMPOO_E_STATE,
     {"rank 2 is at step 7 and rank 0 at step 2"},
     [](DeviceRanks& ranks) { ranks[2].SetState("group.0/step", {7}); },
     [](DeviceRanks& ranks) { ranks[2].SetState("group.0/step", {2}); }},
};

TEST_CASE("if one rank finds an error or has different inputs, all ranks report it, and parameters do not change") {
  for (const Odd& odd : kOdd) {
    for (const Keys& reporting : kReporting) {
      INFO(std::string(odd.what), ", ", reporting);
      const Stage stage;
      DeviceRanks ranks(SpecOfRanks(reporting + odd.keys), kRanks);
      MakeTwoSteps(&ranks);
      odd.spoil(ranks);
      CheckAllReject(&ranks, reporting, odd.status, odd.words);
      odd.mend(ranks);
      CheckTheyContinue(&ranks);
    }
  }
}

// With one bucket, ranks exchange their errors together with the updates, so a rank has begun the step before it
// detects the error of another rank.
TEST_CASE("with several buckets, an error that one rank finds changes no state on any rank") {
  for (const char* bucket : {"0", "128"}) {
    const bool several = bucket != std::string("0");
    CAPTURE(several);
    const Stage stage;
    DeviceRanks ranks(SpecOfRanks({{"status_lag", "0"}, {"comm_bucket_bytes", bucket}}), kRanks);
    MakeTwoSteps(&ranks);
    const auto before = ranks.Bits();
    ranks[2].SpoilGradient(0, 0, kInfinity);
    ranks.CheckStep(SHAMPOO_E_NUMERIC, {"rank 2: the gradient of parameter \"p0\"", "has an infinity"});
    const bool had_begun = ranks.text(0).find("Other ranks could not detect this and had begun") != std::string::npos;
    CHECK(had_begun == !several);
    if (several) CHECK(ranks.Bits() == before);
    CheckTheyContinue(&ranks);
  }
}

TEST_CASE("create fails on all ranks if their plans differ") {
  const Stage stage;
  DeviceRanks ranks(SpecOfRanks({}), kRanks);
  ranks.OnEvery([&](int rank, Model* model) {
    shampoo_optimizer_destroy(std::exchange(model->optimizer, nullptr));
    ModelSpec spec = SpecOfRanks({});
    spec.replica_ops = ranks.replica_ops(rank);
    if (rank == 2) spec.params[1].shape = {13};
    return ranks.CreateAgain(rank, MakePlan(spec).get());
  });
  CHECK(ranks.DifferencesFrom(SHAMPOO_E_INVALID, {"the plans or communicators differ: rank 2 has", "(13)"}) == "");
}

TEST_CASE("async roots on several ranks equal those on one rank") {
  for (const Keys& keys : Combinations("comm_bucket_bytes=0|128 root_device=device|host")) {
    CAPTURE(keys);
    const Stage stage;
    const Keys async = Keys("precondition_frequency=4 root_async=2") + keys;
    const TestStream stream;
    Model alone(SpecOfRanks(async), stream);
    DeviceRanks ranks(SpecOfRanks(async), kRanks);
    alone.Train(1, 11);
    ranks.Train(1, 11);
    ranks.MustSucceed();
    ranks.CheckParams(alone);
  }
}

// Returns the parameters of all ranks after the steps that compute and use async roots. If `fails` is true, the thread
// that computes the roots of one rank gets an error from cudaEventRecord.
std::vector<std::vector<double>> TrainWithRootError(bool fails) {
  const Stage stage;
  fake_cuda_set_query_progress(-1);  // each query first runs the queried work, so steps never wait for an event
  // With several buckets, an error that one rank finds changes no state on the other ranks.
  const Keys keys = "precondition_frequency=4 root_async=2 status_lag=0 comm_bucket_bytes=128";
  DeviceRanks ranks(SpecOfRanks(keys), kRanks);
  ranks.Train(1, 7);
  fake_cuda_set_solver(FAKE_CUDA_SOLVER_IS_HELD);
  ranks.FillGradients(8);
  // CheckStep() does not end the test if the step fails. Ending the test here would destroy the optimizers, and this
  // would wait forever for the held solver.
  ranks.CheckStep();
  fake_cuda_wait_for_held_call();
  fake_cuda_mark();
  if (fails) fake_cuda_fail_elsewhere("cudaEventRecord", 1, cudaErrorUnknown);
  fake_cuda_set_solver(FAKE_CUDA_SOLVER_ENQUEUES);
  fake_cuda_wait_for_jobs(kRanks);
  int errors = 0;
  for (uint64_t t = 9; t <= 10; ++t) {
    ranks.Step(t);
    // If the thread that computes roots stores its error after step 9 has begun, step 10 returns the error.
    if (ranks.status(0) != SHAMPOO_OK) {
      ++errors;
      CHECK(ranks.DifferencesFrom(SHAMPOO_E_DEVICE, {"rank ", ": ", "cudaEventRecord(...) failed"}) == "");
      ranks.Step();
    }
    CHECK(ranks.DifferencesFrom(SHAMPOO_OK) == "");
  }
  CHECK(errors == (fails ? 1 : 0));
  return ranks.Params();
}

TEST_CASE("if the async roots of one rank fail then all ranks return the error and can continue" * NeedsFake()) {
  CHECK(TrainWithRootError(true) == TrainWithRootError(false));
}

TEST_CASE("hyper-parameters in device memory must be equal on all ranks") {
  for (const Keys& reporting : kReporting) {
    CAPTURE(reporting[0].second);
    const Stage stage;
    DeviceRanks ranks(SpecOfRanks(reporting), kRanks);
    CheckBoundRates(&ranks, reporting, "rank 1");
  }
}

TEST_CASE(
    "if the owner of a block skips its update, all ranks skip the update and write the old parameter to the output") {
  for (const Keys& reporting : kReporting) {
    for (const char* dtype : {"f16", "f32"}) {
      INFO("communication_dtype ", std::string(dtype), ", ", reporting);
      const Stage stage;
      ModelSpec spec = SpecOfRanks(reporting + Keys{{"communication_dtype", dtype}});
      spec.groups = {{{"lr", "1e6"}}};  // the updates of this group overflow float16, but not float32
      spec.params[3].group = 1;
      spec.params[3].in_place = false;
      spec.params[3].copy_dtype = SHAMPOO_F32;
      DeviceRanks ranks(spec, kRanks);
      ranks.FillGradients(1);
      const auto before = ranks.Params();
      ranks.CheckStep();
      CHECK(ranks.SameParams());
      const bool is_skipped = dtype == std::string("f16");
      const auto after = ranks.Params();
      for (size_t i = 0; i < after.size(); ++i) CHECK((after[i] == before[i]) == (i % 6 == 3));
      for (int rank = 0; rank < kRanks; ++rank) {
        CHECK((ranks[rank].OutValues(3) == before[3]) == is_skipped);
        CHECK(ranks[rank].OutValues(3) == ranks[0].OutValues(3));
        CHECK(ranks[rank].CopyValues(3) == ranks[rank].OutValues(3));
      }
      if (!is_skipped) continue;
      ranks.CheckStep(SHAMPOO_E_NUMERIC, {"the direction of block p3/0", "skipped the update of the block"});
    }
  }
}

}  // namespace
}  // namespace shampoo_test
