// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of eigenbases, with eigensolvers that fail or that return wrong results without an error.
#include <cusolverDn.h>

#include "tests/cuda/faults/attempts.h"
#include "tests/cuda/faults/fail_eigenproblem.h"

namespace shampoo_test {
namespace {

constexpr int kBasisFaults[] = {FAKE_CUDA_EIGEN_INFO, FAKE_CUDA_EIGEN_NAN, FAKE_CUDA_EIGEN_WRONG_VECTORS,
                                FAKE_CUDA_EIGEN_WRONG_VALUES};

const Keys kSoapKeys = "method=soap";
const Keys kBasisMethods[] = {kSoapKeys, kSoapKeys + Keys("factor_correction=kl"), {{"method", "kl_shampoo"}}};

ModelSpec SpecOfBases(const Keys& more = {}) {
  return {.keys = Keys("method=soap precondition_frequency=2 status_lag=0") + more,
          .params = {{{6, 6}}, {{6, 6}}, {{6, 6}}}};
}

// Compares a model in which the computation of one eigenbasis fails at step 3 with a model in which none fails.
void CheckFailedBasis(const Keys& method, int how) {
  INFO(method, ", fault ", how);
  const Stage stage;
  Model spoiled(SpecOfBases(method));
  Model plain(SpecOfBases(method));
  std::vector<double> previous;
  for (Model* model : {&plain, &spoiled}) {
    for (uint64_t t = 1; t <= 3; ++t) {
      if (t == 3) previous = model->State("p1/0/basis.1");
      if (model == &spoiled && t == 3) FailEigenproblem(model, how);
      model->Step(t);
    }
  }
  CHECK(spoiled.Stat("root_reused") == 1);
  CHECK(spoiled.Stat("root_retried") == 0);
  CHECK(plain.Stat("root_reused") == 0);
  CHECK(spoiled.State("p1/0/basis.1") == previous);
  CHECK(Distance(plain.State("p1/0/basis.1"), previous) > 1e-3);
  for (const char* state : {"p1/0/basis.0", "p1/0/factor.0", "p1/0/factor.1", "p0/0/basis.1", "p2/0/filtered_grad"}) {
    CAPTURE(std::string(state));
    CHECK(spoiled.State(state) == plain.State(state));
  }
  // A step computes its direction before it refreshes the bases, so the failure affects parameters only from step 4 on.
  for (size_t p = 0; p < 3; ++p) CHECK(spoiled.ParamValues(p) == plain.ParamValues(p));
  const char* const rotated = method.Value("method") == "kl_shampoo" ? "p1/0/kl_scale.1" : "p1/0/second_moment";
  CHECK(Distance(spoiled.State(rotated), plain.State(rotated)) > 1e-4);
  for (Model* model : {&plain, &spoiled}) model->Train(4, 8);
  CHECK(spoiled.ParamValues(0) == plain.ParamValues(0));
  CHECK(Distance(spoiled.ParamValues(1), plain.ParamValues(1)) < 0.1);
}

TEST_CASE("a block whose eigenbasis cannot be computed keeps its previous basis, and other matrices are not affected" *
          NeedsFake()) {
  for (const Keys& method : kBasisMethods) {
    for (const int how : kBasisFaults) CheckFailedBasis(method, how);
  }
}

TEST_CASE("if an eigenbasis cannot be computed at the first refresh, it is the identity until the next refresh" *
          NeedsFake()) {
  for (const Keys& method : kBasisMethods) {
    CAPTURE(method);
    const Stage stage;
    Model model(SpecOfBases(method));
    FailEigenproblem(&model, FAKE_CUDA_EIGEN_NAN);
    model.Step(1);
    CHECK(model.Stat("root_reused") == 1);
    std::vector<double> identity(36);
    for (size_t i = 0; i < 6; ++i) identity[7 * i] = 1;
    CHECK(model.State("p1/0/basis.1") == identity);
    CHECK(model.State("p1/0/basis.0") != identity);
  }
}

TEST_CASE(
    "if the computation of an eigenbasis fails too often, the next step reports an error that names the factor matrix" *
    NeedsFake()) {
  const Stage stage;
  Model model(SpecOfBases("precondition_frequency=1 root_failure_tolerance=1"));
  for (uint64_t t = 1; t <= 2; ++t) {
    FailEigenproblem(&model, FAKE_CUDA_EIGEN_INFO);
    model.Step(t);
  }
  CheckError(model.TryStep(3), SHAMPOO_E_NUMERIC,
             "the eigenbasis of p1/0/factor.1 could not be computed at 2 refreshes in a row");
  model.Step(3);
  CHECK(model.State("p1/0/gradient_count") == std::vector<double>{3});
}

TEST_CASE("if cuSOLVER rejects a batch of eigenproblems, the library solves them one by one" * NeedsFake()) {
  const Stage stage;
  Model plain(SpecOfBases());
  plain.Train(1, 5);
  Model model(SpecOfBases());
  for (uint64_t t = 1; t <= 5; ++t) {
    model.Wait();
    if (t == 3) fake_cuda_fail("cusolverDnSsyevjBatched", 1, CUSOLVER_STATUS_INTERNAL_ERROR);
    model.Step(t);
  }
  CHECK(fake_cuda_cancel_failures() == 0);
  CHECK(model.Stat("root_reused") == 0);
  for (size_t p = 0; p < 3; ++p) CHECK(Distance(model.ParamValues(p), plain.ParamValues(p)) < 1e-4);
}

}  // namespace
}  // namespace shampoo_test
