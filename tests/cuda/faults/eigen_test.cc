// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of inverse roots, with eigensolvers that fail or that return wrong results without an error.
#include <cusolverDn.h>

#include <cmath>

#include "tests/cuda/faults/attempts.h"
#include "tests/cuda/faults/fail_eigenproblem.h"

namespace shampoo_test {
namespace {

constexpr int kFaults[] = {FAKE_CUDA_EIGEN_INFO, FAKE_CUDA_EIGEN_NAN, FAKE_CUDA_EIGEN_WRONG_VECTORS,
                           FAKE_CUDA_EIGEN_WRONG_VALUES};

ModelSpec SpecOfRoots(const Keys& more = {}) {
  return {.keys = Keys("epsilon=0.1 use_merge_dims=false grafting=adam") + more,
          .params = {{{6, 5}}, {{6, 5}}, {{6, 5}}}};
}

struct Log {
  Log() {
    Must(
        shampoo_set_log([](void* user, int32_t, const char* line) { static_cast<Log*>(user)->text += line; }, this, 1));
  }
  ~Log() { (void)shampoo_set_log(nullptr, nullptr, 0); }
  std::string text;
};

// Waits for pending work, and then makes the next `runs` runs of eigensolvers fail for all of their matrices.
void SpoilRuns(int how, int runs) {
  MustCuda(cudaDeviceSynchronize());
  for (int run = 0; run < runs; ++run) fake_cuda_fail_eigen(1, -1, how, 3);
}

std::vector<double> InverseOf(Model* model, const char* block) {
  return model->State(std::string(block) + "/inverse.1");
}

TEST_CASE("if an eigensolver fails, the block keeps its previous inverse root until a call recovers the root" *
          NeedsFake()) {
  for (const Keys& keys : Combinations("status_lag=0|1 inverse_dtype=f32|bf16")) {
    for (const int how : kFaults) {
      INFO(keys, ", fault ", how);
      const Stage stage;
      Log log;
      Model plain(SpecOfRoots(keys));
      Model spoiled(SpecOfRoots(keys));
      plain.Train(1, 3);
      spoiled.Step(1);
      FailEigenproblem(&spoiled, how);
      spoiled.Step(2);
      // With status_lag=1, no call has read the host report of step 2 yet.
      CHECK(spoiled.Stat("root_retried") == (ReportsLate(keys) ? 0 : 1));
      spoiled.Step(3);
      for (const Model* model : {&plain, &spoiled}) CHECK(model->State("group.0/step") == std::vector<double>{3});
      CHECK(spoiled.Stat("root_retried") == 1);
      CHECK(spoiled.Stat("root_retried_device") == 1);
      CHECK(spoiled.Stat("root_reused") == 0);
      CHECK(spoiled.Stat("root_computed") == plain.Stat("root_computed"));
      const std::string why =
          how == FAKE_CUDA_EIGEN_INFO ? "the eigensolver did not converge" : "the solver returned a wrong result";
      CHECK(log.text.find("the inverse root of p1/0/factor.1 could not be computed at first: " + why) !=
            std::string::npos);
      // The failure does not affect other blocks. Step 2 of p1 has used the root of p1/0/factor.1 from step 1.
      for (const size_t p : {0, 2}) CHECK(spoiled.ParamValues(p) == plain.ParamValues(p));
      CHECK(Distance(spoiled.ParamValues(1), plain.ParamValues(1)) > 1e-4);
      for (const char* state : {"/factor.0", "/factor.1", "/inverse.0", "/inverse.1"}) {
        CHECK(spoiled.State(std::string("p1/0") + state) == plain.State(std::string("p1/0") + state));
      }
    }
  }
}

TEST_CASE("the step in which a root fails uses the previous inverse root" * NeedsFake()) {
  for (const int how : kFaults) {
    CAPTURE(how);
    const Stage stage;
    // Both models are equal after step 5. In step 6, the refresh of `spoiled` fails, and `plain` has no refresh.
    Model spoiled(SpecOfRoots("start_preconditioning_step=5"));
    Model plain(SpecOfRoots("precondition_frequency=5"));
    plain.Train(1, 6);
    spoiled.Train(1, 5);
    SpoilRuns(how, 2);  // one run for the first dims of all blocks, and one for the second dims
    spoiled.Step(6);
    // No call has read the host report of step 6 yet, so no root has been recovered. InverseOf() reads the report.
    for (size_t p = 0; p < 3; ++p) CHECK(spoiled.ParamValues(p) == plain.ParamValues(p));
    CHECK(Distance(InverseOf(&spoiled, "p1/0"), InverseOf(&plain, "p1/0")) > 1e-3);
    CHECK(spoiled.Stat("root_retried") == 6);
  }
}

TEST_CASE("the recovered root equals the root that the device would have computed" * NeedsFake()) {
  for (const char* dtype : {"f32", "f64"}) {
    for (const int64_t d : {6, 40, 130}) {
      const Stage stage;
      ModelSpec spec = SpecOfRoots({{"computation_dtype", dtype}, {"epsilon", "10"}});
      spec.params = {{{d, 3}}};
      Model spoiled(spec);
      Model plain(spec);
      plain.Step(1);
      plain.MustSucceed();
      fake_cuda_fail_eigen(1, 0, FAKE_CUDA_EIGEN_NAN, 0);
      spoiled.Step(1);
      spoiled.MustSucceed();
      CHECK(spoiled.Stat("root_retried") == 1);
      const double tolerance = std::string(dtype) == "f64" ? 1e-12 : 1e-5;
      CHECK(Distance(spoiled.State("p0/0/inverse.0"), plain.State("p0/0/inverse.0")) < tolerance);
      CHECK(Distance(spoiled.State("p0/0/factor.0"), plain.State("p0/0/factor.0")) == 0);
    }
  }
}

TEST_CASE("a failed root is computed again alone, then by an iteration, and then on the host" * NeedsFake()) {
  struct Case {
    const char* multiplier;  // with 0.7, no iterative method can compute the root
    int runs;                // how many runs of eigensolvers fail
    const char* counter;     // the statistic that counts the recovery
  };
  for (const Case& one : {Case{"1", 1, "root_retried_device"},
                          {"1", 2, "root_retried_device_newton"},
                          {"0.7", 1, "root_retried_device"},
                          {"0.7", 2, "root_retried_float64"}}) {
    for (const char* dtype : {"f32", "f64"}) {
      CAPTURE(std::string(one.counter));
      const Stage stage;
      Log log;
      ModelSpec spec = SpecOfRoots({{"computation_dtype", dtype}, {"exponent_multiplier", one.multiplier}});
      spec.params = {{{40}}};
      Model spoiled(spec);
      Model plain(spec);
      plain.Step(1);
      plain.MustSucceed();
      SpoilRuns(FAKE_CUDA_EIGEN_INFO, one.runs);
      spoiled.Step(1);
      spoiled.MustSucceed();
      CHECK(spoiled.Stat("root_retried") == 1);
      CHECK(spoiled.Stat(one.counter) == 1);
      CHECK(log.text.find("the eigensolver did not converge; recovered by ") != std::string::npos);
      // A root that the Newton iteration computes is only as accurate as the check of its residual requires.
      const double tolerance = one.counter == std::string("root_retried_device_newton") ? 1e-3 : 1e-4;
      CHECK(Distance(spoiled.State("p0/0/inverse.0"), plain.State("p0/0/inverse.0")) < tolerance);
      CHECK(spoiled.State("p0/0/factor.0") == plain.State("p0/0/factor.0"));
    }
  }
}

// Returns an n x n gradient whose singular values fall from 1 to 1e-5. The factor matrices of this gradient have
// eigenvalues down to 1e-10.
std::vector<double> IllConditioned(size_t n) {
  const auto weight = [n](size_t i) { return std::sqrt(2.0 / static_cast<double>(n)) * (i % 3 == 0 ? 1 : -1); };
  std::vector<double> singular(n);
  double trace = 0;  // of D v v^T, where D = diag(singular) and v_i = weight(i)
  for (size_t i = 0; i < n; ++i) {
    singular[i] = std::pow(10.0, -5.0 * static_cast<double>(i) / static_cast<double>(n - 1));
    trace += singular[i] * weight(i) * weight(i);
  }
  // The product H D H with the reflection H = I - v v^T, where |v|^2 is 2.
  std::vector<double> gradient(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      gradient[i * n + j] = (i == j ? singular[i] : 0) + weight(i) * weight(j) * (trace - singular[i] - singular[j]);
    }
  }
  return gradient;
}

TEST_CASE("if root_method=cans fails, the eigensolver of the device or an iteration recovers the root" * NeedsFake()) {
  struct Case {
    int runs;             // how many runs of eigensolvers fail
    const char* counter;  // the statistic that counts the recoveries
  };
  for (const Case& one : {Case{0, "root_retried_device"}, {2, "root_retried_device_newton"}}) {
    CAPTURE(std::string(one.counter));
    const Stage stage;
    Log log;
    ModelSpec spec = SpecOfRoots("computation_dtype=f64 epsilon=1e-12 grafting=none");
    spec.params = {{{40, 40}}};
    Model plain(spec);
    spec.keys = spec.keys + Keys("root_method=cans");
    Model model(spec);
    for (Model* of_two : {&plain, &model}) {
      of_two->SetGradient(0, IllConditioned(40));
      of_two->Step();
      if (of_two == &model) SpoilRuns(FAKE_CUDA_EIGEN_INFO, one.runs);
      of_two->MustSucceed();
    }
    CHECK(plain.Stat("root_retried") == 0);
    CHECK(model.Stat("root_retried") == 2);
    CHECK(model.Stat(one.counter) == 2);
    CHECK(model.Stat("root_computed") == plain.Stat("root_computed"));
    CHECK(model.Stat("root_reused") == 0);
    CHECK(log.text.find("could not be computed at first: ") != std::string::npos);
    for (const char* state : {"p0/0/inverse.0", "p0/0/inverse.1"}) {
      CHECK(Distance(model.State(state), plain.State(state)) < 1e-5);
    }
  }
}

TEST_CASE("if the eigensolver for batches returns an error in a step, that step decomposes the matrices one by one" *
          NeedsFake()) {
  for (const cusolverStatus_t code :
       {CUSOLVER_STATUS_EXECUTION_FAILED, CUSOLVER_STATUS_ALLOC_FAILED, static_cast<cusolverStatus_t>(28)}) {
    const Stage stage;
    ModelSpec spec = SpecOfRoots();
    spec.params = {{{6, 40}}, {{6, 40}}, {{6, 40}}};
    Model spoiled(spec);
    Model plain(spec);
    const auto step = [](Model* model, int64_t solved_one_by_one) {
      fake_cuda_mark();
      model->Step(1);
      CHECK(fake_cuda_calls("cusolverDnXsyevd") == solved_one_by_one);
      model->MustSucceed();
    };
    step(&plain, 0);
    for (const char* function : {"cusolverDnXsyevBatched", "cusolverDnSsyevjBatched"}) {
      fake_cuda_fail_always(function, code);
    }
    step(&spoiled, 6);
    CHECK(fake_cuda_cancel_failures() == 2);
    CHECK(spoiled.Stat("root_retried") == 0);
    CHECK(spoiled.Stat("root_computed") == plain.Stat("root_computed"));
    for (size_t p = 0; p < 3; ++p) CHECK(Distance(spoiled.ParamValues(p), plain.ParamValues(p)) < 1e-5);
  }
}

TEST_CASE("if every eigensolver of the device returns an error, an iteration computes the roots" * NeedsFake()) {
  const Stage stage;
  Model model(SpecOfRoots());
  model.FillGradients(1);
  for (const char* function : {"cusolverDnXsyevBatched", "cusolverDnSsyevjBatched", "cusolverDnXsyevd"}) {
    fake_cuda_fail_always(function, CUSOLVER_STATUS_INTERNAL_ERROR);
  }
  model.Step();
  model.MustSucceed();
  CHECK(fake_cuda_cancel_failures() == 3);
  CHECK(model.Stat("root_retried_device_newton") == 6);
  CHECK(model.Stat("root_reused") == 0);
}

TEST_CASE("optimizer creation halves the chunks of an eigensolver that rejects large batches" * NeedsFake()) {
  for (const int64_t limit : {1, 3, 5}) {
    const Stage stage;
    ModelSpec spec = SpecOfRoots();
    spec.params.assign(10, {{6}});
    spec.params.push_back({{40}});
    const auto step = [](Model* model) {
      fake_cuda_mark();
      model->Step(1);
      const int64_t eigenproblems = fake_cuda_count(FAKE_CUDA_EIGENPROBLEMS);
      model->MustSucceed();
      return eigenproblems;
    };
    // The eigensolver decomposes the ten 6 x 6 matrices in chunks of 10, 5, 3 or 1, and the 40 x 40 matrix alone.
    Model plain(spec);
    CHECK(step(&plain) == 1 + 1);
    fake_cuda_limit_eigen_batches(limit);
    Model limited(spec);
    CHECK(step(&limited) == (limit == 5 ? 2 : limit == 3 ? 4 : 10) + 1);
    CHECK(limited.Stat("root_retried") == 0);
    for (size_t p = 0; p < spec.params.size(); ++p) CHECK(limited.ParamValues(p) == plain.ParamValues(p));
  }
}

TEST_CASE("if optimizer creation finds no eigensolver for batches, steps decompose matrices one by one" * NeedsFake()) {
  const Stage stage;
  for (const char* function : {"cusolverDnXsyevBatched_bufferSize", "cusolverDnSsyevjBatched_bufferSize"}) {
    fake_cuda_fail_always(function, CUSOLVER_STATUS_NOT_SUPPORTED);
  }
  ModelSpec spec = SpecOfRoots();
  spec.params = {{{6, 40}}, {{6, 40}}};
  Model model(spec);
  CHECK(fake_cuda_cancel_failures() == 2);
  model.FillGradients(1);
  fake_cuda_mark();
  model.Step();
  model.MustSucceed();
  CHECK(fake_cuda_calls("cusolverDnXsyevd") == 4);
  CHECK(fake_cuda_calls("cusolverDnXsyevBatched") == 0);
  CHECK(fake_cuda_calls("cusolverDnSsyevjBatched") == 0);
  CHECK(model.Stat("root_computed") == 4);
  CHECK(model.Stat("root_retried") == 0);
}

// Two arenas of the caller alternate: each step reads the arena that the previous step has written, and writes the
// other arena. With status_lag=1, the library reads the host report of a step after the call of the step has returned.
// The library must not change the written arena then, so it cannot store a recovered root.
TEST_CASE(
    "if a root that failed cannot be recovered, the block keeps its previous root, and too many failures are an error" *
    NeedsFake()) {
  const Stage stage(FAKE_CUDA_OLDEST_FIRST);
  Log log;
  Model model(SpecOfRoots("root_failure_tolerance=1"));
  Arenas arenas(model);
  const auto step = [&] {
    arenas.Bind(&model);
    const shampoo_status status = model.TryStep();
    if (status == SHAMPOO_OK) arenas.Swap();
    return status;
  };
  model.FillGradients(1);
  CHECK(step() == SHAMPOO_OK);
  for (int i = 0; i < 2; ++i) {
    FailEigenproblem(&model, FAKE_CUDA_EIGEN_INFO);
    model.FillGradients(2);
    CHECK(step() == SHAMPOO_OK);
  }
  CheckError(step(), SHAMPOO_E_NUMERIC,
             "the inverse root of p1/0/factor.1 could not be computed at 2 refreshes in a row");
  CHECK(std::string(shampoo_last_error()).find("root_failure_tolerance (1)") != std::string::npos);
  CHECK(model.Stat("root_reused") == 2);
  CHECK(model.Stat("root_retried") == 0);
  CHECK(log.text.find("the block keeps its previous inverse root") != std::string::npos);
  CHECK(step() == SHAMPOO_OK);
  Must(shampoo_optimizer_bind_state(model.optimizer, nullptr, nullptr));
}

TEST_CASE(
    "if all roots fail at the first refresh, the step uses identity matrices, and a later call recovers the roots" *
    NeedsFake()) {
  for (const int how : kFaults) {
    const Stage stage;
    Model spoiled(SpecOfRoots("grafting=none"));
    Model plain(SpecOfRoots("grafting=none"));
    plain.Step(1);
    SpoilRuns(how, 2);
    spoiled.Step(1);
    spoiled.MustSucceed();
    CHECK(spoiled.Stat("root_retried") == 6);
    for (size_t p = 0; p < 3; ++p) {
      // The inverse roots are the identity, so the update is -lr times the gradient.
      std::vector<double> expected = Sequence(1000 + p, 30);
      const std::vector<double> gradient = Sequence(1500 + p, 30);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.01 * gradient[i];
      CHECK(Distance(spoiled.ParamValues(p), expected) < 1e-6);
      const std::string inverse = "p" + std::to_string(p) + "/0/inverse.0";
      CHECK(Distance(spoiled.State(inverse), plain.State(inverse)) < 1e-5);
    }
  }
}

}  // namespace
}  // namespace shampoo_test
