// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests the key track_root_residuals, with which an optimizer measures errors of inverse roots. On the device, the
// errors are close to those on the CPU, and measuring errors neither waits for the device nor changes results.
#include <cusolverDn.h>

#include "tests/capi/behaviour/listener.h"
#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"
#include "tests/cuda/tools/graph.h"

namespace shampoo_test {
namespace {

const Keys kTracked = "track_root_residuals=true";
const char* const kStats[] = {"root_error.mean",    "root_error.median",    "root_error.p90",    "root_error.max",
                              "root_residual.mean", "root_residual.median", "root_residual.p90", "root_residual.max"};

// Checks that the statistics of the device are positive and close to those of the CPU. The statistics measure rounding
// errors, which differ between the device and the CPU. Therefore a statistic may differ by `rounding` plus half of its
// value on the CPU.
void CheckSameStats(const Model& device, const Model& host, double rounding) {
  for (const char* stat : kStats) {
    CAPTURE(std::string(stat));
    const double expected = host.Stat(stat);
    CHECK(std::fabs(device.Stat(stat) - expected) <= rounding + 0.5 * expected);
    CHECK(device.Stat(stat) > 0);
  }
  CHECK(device.Stat("root_error.worst") >= 0);
}

TEST_CASE("residuals of roots are close to those on the CPU, for every method and dtype") {
  for (const Keys& keys : Combinations("root_method=eigen|newton|higher_order|cans status_lag=0|1")) {
    for (const Keys& dtypes :
         {Keys("root_dtype=f32"), Keys("root_dtype=f64"), Keys("factor_dtype=bf16 inverse_dtype=f16")}) {
      CAPTURE(keys + dtypes);
      const StageWithStream stream;
      ModelSpec spec = FiveShapes(kTracked + dtypes + keys);
      spec.params[1].param_dtype = spec.params[1].grad_dtype = spec.params[1].out_dtype = SHAMPOO_BF16;
      Pair pair(spec, stream);
      CHECK(pair.device.Stat("root_error.worst") == -1);
      pair.Train(1, 4);
      pair.device.MustSucceed();
      CheckSameStats(pair.device, pair.host, 3e-5);
      CHECK(pair.device.Stat("root_residual.max") < 0.05);
    }
  }
}

TEST_CASE("with trace_scaling, residuals of roots are close to those on the CPU") {
  const Keys divided = "trace_scaling=0.5 status_lag=0 root_dtype=f64";
  for (const Keys& method : kRootMethods) {
    for (const Keys& async : {Keys("root_async=0"), Keys("root_async=1"), Keys("root_async=1 root_device=host")}) {
      CAPTURE(method + async);
      const StageWithStream stream;
      Pair pair(FiveShapes(kTracked + divided + method + async), stream);
      pair.Train(1, 5);
      pair.device.MustSucceed();
      CheckSameStats(pair.device, pair.host, 3e-5);
      CHECK(pair.device.Stat("root_residual.max") < 1e-3);
    }
  }
}

TEST_CASE("track_root_residuals changes no result and adds no allocation and no wait" * NeedsFake()) {
  for (const Keys& keys : Combinations("root_method=eigen|cans|newton root_async=0|1 precondition_frequency=3")) {
    CAPTURE(keys);
    const Stage stage;
    std::vector<std::vector<char>> bits;
    std::vector<int64_t> waits;
    for (const bool tracked : {false, true}) {
      const TestStream stream;
      Model model(FiveShapes(keys + (tracked ? kTracked : Keys{})), stream);
      model.FillGradients(1);
      model.Bind();
      fake_cuda_mark();
      for (int t = 1; t <= 5; ++t) Must(shampoo_optimizer_step(model.optimizer, stream));
      waits.push_back(fake_cuda_count(FAKE_CUDA_SYNCHRONIZATIONS));
      CheckNoCopiesOrAllocations();
      bits.push_back(BitsOf(model));
      CHECK((model.Stat("root_error.max") > 0) == tracked);
    }
    CHECK(bits[0] == bits[1]);
    CHECK(waits[0] == waits[1]);
  }
}

TEST_CASE("residuals are reported and logged with the step that begins to use the roots") {
  const StageWithStream stream;
  Model model(FiveShapes(kTracked + Keys("root_async=2 precondition_frequency=4 status_lag=0")), stream);
  Listener listener(2);
  std::vector<bool> known;
  size_t logged = 0;
  for (uint64_t t = 1; t <= 6; ++t) {
    model.Step(t);
    known.push_back(model.Stat("root_error.worst") >= 0);
    for (const std::string& message : listener.Take()) {
      logged += message.find("inverse roots compared with float64: root_error mean") != std::string::npos ? 1 : 0;
    }
  }
  CHECK(std::find(known.begin(), known.end(), true) != known.end());
  CHECK(logged > 0);
  CHECK(logged == static_cast<size_t>(model.Stat("root_computed")) / 12);  // the model has 12 factor matrices
}

TEST_CASE("only the roots of groups that set track_root_residuals are measured") {
  const StageWithStream stream;
  ModelSpec spec = FiveShapes("status_lag=0");
  spec.groups = {kTracked};
  // p5 has the same shape as p0, which is in group 0. The factor matrices of p5 have the numbers 10 and 11.
  spec.params[5].group = 1;
  Pair pair(spec, stream);
  pair.Train(1, 3);
  pair.Each([](Model& model) { CHECK(model.Stat("root_error.worst") >= 10); });
  // Rounding errors differ on a GPU. They decide which of the two roots of p5 has the larger root_error.
  if (OnFake()) CHECK(pair.device.Stat("root_error.worst") == pair.host.Stat("root_error.worst"));
}

TEST_CASE("if a solver fails and the root is computed again, the residual of the new root is measured" * NeedsFake()) {
  for (const int how : {FAKE_CUDA_EIGEN_INFO, FAKE_CUDA_EIGEN_WRONG_VECTORS}) {
    for (const auto& [recovered_by_host, trace] :
         {std::pair{false, "0"}, std::pair{true, "0"}, std::pair{false, "0.5"}, std::pair{true, "0.5"}}) {
      const StageWithStream stream;
      ModelSpec spec;
      spec.keys = kTracked + Keys("epsilon=1e-2 status_lag=0 precondition_1d=true");
      spec.keys.emplace_back("trace_scaling", trace);
      spec.params = {{{12}}};
      Pair pair(spec, stream);
      Model& model = pair.device;
      pair.host.Step(1);
      // The solver for batches fails, and if recovered_by_host is set, the solver for one matrix fails, too.
      fake_cuda_fail_eigen(1, 0, how, 3);
      if (recovered_by_host) fake_cuda_fail_always("cusolverDnXsyevd", CUSOLVER_STATUS_INTERNAL_ERROR);
      const shampoo_status status = (model.FillGradients(1), model.TryStep());
      (void)fake_cuda_cancel_failures();
      if (status != SHAMPOO_OK) continue;
      CHECK(model.Stat("root_retried") == 1);
      CHECK(model.Stat("root_error.worst") == 0);
      CHECK(model.Stat("root_error.max") < 1e-3);
      CHECK(model.Stat("root_residual.max") > 0);
      CHECK(model.Stat("root_residual.max") < 1e-3);
      CHECK(Distance(model.State("p0/0/inverse.0"), pair.host.State("p0/0/inverse.0")) < 1e-3);
    }
  }
}

TEST_CASE("every rank measures its own roots, and replays of a captured step do not change the measured values") {
  for (const RankKind& kind : {RankKind{"local", 2, 1}, {"local", 1, 2}}) {
    for (const Keys& lag : kLags) {
      INFO(NameOf(kind), " ", lag);
      const Stage stage;
      DeviceRanks ranks(FiveShapes(kTracked + lag + Keys("precondition_frequency=3")), kind);
      ranks.Train(1, 3);
      ranks.MustSucceed();
      for (const Model* model : ranks.models()) CHECK(model->Stat("root_error.max") > 0);
    }
  }
  StagedModel model(FiveShapes(kTracked + Keys("refresh_growth=0 precondition_frequency=4")));
  model.Train(1, 4);
  model.MustSucceed();
  const double measured = model.Stat("root_error.mean");
  CHECK(measured > 0);
  model.FillGradients(5);
  const Graph graph(&model);
  graph.Launch();
  graph.Launch();
  model.MustSucceed();
  CHECK(model.Stat("steps") == 6);
  CHECK(model.Stat("root_error.mean") == measured);
  model.Step(7);
  model.Step(8);
  model.MustSucceed();
  CHECK(model.Stat("root_error.mean") != measured);
}

}  // namespace
}  // namespace shampoo_test
