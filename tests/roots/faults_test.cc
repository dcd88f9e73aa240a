// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests the recovery ladder through the C API with injected failures: the rung that gives the root, the statistics, the
// log messages, and blocks whose root cannot be computed at all.
#include "tests/roots/faults.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <random>

#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"

namespace shampoo_test {
namespace {

using shampoo::Rung;
using shampoo::roots_test::Fault;
using shampoo::roots_test::FaultPlan;
using shampoo::roots_test::Faults;

// The default parameters of Fixture have four factor matrices, numbered from first/0/factor.0 (0) to second/0/factor.1
// (3). Most tests with these parameters make the solvers fail only for matrix kFaulty.
constexpr int64_t kFaulty = 2;
constexpr const char* kFaultyName = "second/0/factor.0";
constexpr const char* kFaultyInverse = "second/0/inverse.0";

Keys Basic(const char* method, const char* root_dtype) {
  return {{"use_merge_dims", "false"}, {"root_method", method}, {"root_dtype", root_dtype}, {"epsilon", "1e-2"}};
}

struct Fixture {
  explicit Fixture(const Keys& keys,
                   const std::vector<shampoo_param_desc>& params = {Param("first", {6, 5}), Param("second", {4, 7})},
                   int32_t threads = 2)
      : host(keys, params, threads) {
    Faults().Clear();
    host.Fill(random);
  }
  ~Fixture() { Faults().Clear(); }
  void Step() {
    host.FillGradients(random);
    host.Step();
  }
  // Makes a step with new gradients. The step must change nothing, and report an error with all strings of `says`.
  void StepFails(std::initializer_list<const char*> says) {
    host.FillGradients(random);
    host.Bind();
    host.CheckStepFails(SHAMPOO_E_NUMERIC, says);
  }
  // Makes steps and calls `check` after each. Each step must reuse one previous root and log exactly one message, which
  // contains every string of `says`.
  void CheckReused(
      int steps, std::initializer_list<const char*> says, const std::function<void()>& check = [] {}) {
    Listener listener(1);
    for (int step = 1; step <= steps; ++step) {
      Step();
      check();
      CHECK(host.Stat("root_reused") == step);
      const std::vector<std::string> messages = listener.Take();
      REQUIRE(messages.size() == 1);
      CHECK_MESSAGE(Has(messages[0], says), messages[0]);
    }
  }
  // Copies the states and the parameters of another optimizer.
  void CopyFrom(const Fixture& from) {
    for (const Host::Entry& entry : from.host.Entries()) host.Write(entry.info.key, from.host.Read(entry));
    for (size_t p = 0; p < host.tensors.size(); ++p) host.tensors[p].w = from.host.tensors[p].w;
  }

  std::mt19937_64 random{5};
  Host host;
};

// Checks that `got` and `expected`, which different solvers computed, are nearly equal. If `with_any_sign` is true,
// compares only magnitudes, because the sign of an eigenvector is arbitrary.
void CheckNear(const Array& got, const Array& expected, bool with_any_sign = false) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const double one = got.Values()[i], other = expected.Values()[i];
    CHECK((with_any_sign ? std::fabs(one) : one) ==
          doctest::Approx(with_any_sign ? std::fabs(other) : other).epsilon(2e-3));
  }
}

struct Ladder {
  const char* method;
  const char* root_dtype;
  std::vector<std::pair<Rung, const char*>> rungs;  // each rung, with the statistic that counts its roots
};

const std::vector<Ladder>& Ladders() {
  static const std::pair<Rung, const char*> requested_eigen{Rung::kRequested, "root_eigen"};
  static const std::pair<Rung, const char*> wide{Rung::kFloat64, "root_retried_float64"};
  static const std::pair<Rung, const char*> eigen{Rung::kEigen, "root_retried_eigen"};
  static const std::pair<Rung, const char*> dsyevr{Rung::kEigenRrr, "root_retried_dsyevr"};
  static const std::pair<Rung, const char*> dsyev{Rung::kEigenQr, "root_retried_dsyev"};
  static const std::vector<Ladder> ladders = {
      {"eigen", "f32", {requested_eigen, wide, dsyevr, dsyev}},
      {"eigen", "f64", {requested_eigen, dsyevr, dsyev}},
      {"newton", "f32", {{Rung::kRequested, "root_newton"}, wide, eigen, dsyevr, dsyev}},
      {"newton", "f64", {{Rung::kRequested, "root_newton"}, eigen, dsyevr, dsyev}},
      {"higher_order", "f32", {{Rung::kRequested, "root_higher_order"}, wide, eigen, dsyevr, dsyev}},
      // Method cans always computes in float64, so its ladder has no rung kFloat64.
      {"cans", "f32", {{Rung::kRequested, "root_cans"}, eigen, dsyevr, dsyev}},
      {"higher_order", "f64", {{Rung::kRequested, "root_higher_order"}, eigen, dsyevr, dsyev}},
  };
  return ladders;
}

TEST_CASE(
    "when a rung fails, the next rung computes nearly the same root, and one statistic and one message report this") {
  for (const Ladder& ladder : Ladders()) {
    CAPTURE(std::string(ladder.method));
    CAPTURE(std::string(ladder.root_dtype));
    Fixture sound(Basic(ladder.method, ladder.root_dtype));
    sound.Step();
    const Array expected = sound.host.Read(kFaultyInverse);
    CHECK(sound.host.Stat("root_retried") == 0);
    for (size_t failing = 1; failing < ladder.rungs.size(); ++failing) {
      for (const Fault fault : {Fault::kReported, Fault::kNan, Fault::kGarbage}) {
        CAPTURE(failing);
        CAPTURE(static_cast<int>(fault));
        Fixture faulty(Basic(ladder.method, ladder.root_dtype));
        for (size_t i = 0; i < failing; ++i) Faults().Add(kFaulty, ladder.rungs[i].first, fault);
        Listener listener(1);
        faulty.Step();
        CheckNear(faulty.host.Read(kFaultyInverse), expected);
        CHECK(faulty.host.Read("first/0/inverse.0") == sound.host.Read("first/0/inverse.0"));
        CHECK(faulty.host.Stat("root_computed") == 4);
        CHECK(faulty.host.Stat("root_reused") == 0);
        CHECK(faulty.host.Stat("root_retried") == 1);
        for (size_t i = 1; i < ladder.rungs.size(); ++i) {
          CHECK(faulty.host.Stat(ladder.rungs[i].second) == (i == failing ? 1 : 0));
          CHECK(Faults().Calls(kFaulty, ladder.rungs[i].first) == (i <= failing ? 1 : 0));
        }
        const std::vector<std::string> messages = listener.Take();
        REQUIRE(messages.size() == 1);
        CHECK_MESSAGE(Has(messages[0], {"1 ", kFaultyName, "could not be computed at first", "recovered by"}),
                      messages[0]);
        // With method cans, the ladder treats a result with a large residual as a failure to converge.
        const bool is_cans = std::string(ladder.method) == "cans";
        if (fault == Fault::kGarbage)
          CHECK_MESSAGE(Has(messages[0], {is_cans ? "did not converge" : "wrong result"}), messages[0]);
      }
    }
  }
}

void FailEverywhere(int64_t matrix) {
  for (const Rung rung : {Rung::kRequested, Rung::kFloat64, Rung::kEigen, Rung::kEigenRrr, Rung::kEigenQr}) {
    Faults().Add(matrix, rung, Fault::kReported);
  }
}

TEST_CASE(
    "when all rungs fail, the block keeps its inverse root, and after repeated failures a step fails without changes") {
  for (const Ladder& ladder : Ladders()) {
    CAPTURE(std::string(ladder.method));
    CAPTURE(std::string(ladder.root_dtype));
    Fixture fixture(Basic(ladder.method, ladder.root_dtype) + Keys{{"root_failure_tolerance", "2"}});
    Host& host = fixture.host;
    fixture.Step();
    const Array before = host.Read(kFaultyInverse);
    FailEverywhere(kFaulty);
    fixture.CheckReused(3, {"1 ", kFaultyName, "previous inverse"},
                        [&] { CHECK(host.Read(kFaultyInverse) == before); });
    for (const Host::Tensors& tensor : host.tensors) {
      for (const double value : tensor.w.Values()) CHECK(std::isfinite(value));
    }

    fixture.StepFails({kFaultyName, "3 refreshes in a row", "root_failure_tolerance (2)", "nothing", "larger epsilon",
                       "learning rate"});

    // The error is reported once: the next step succeeds. An optimizer with a copy of the state makes the same step.
    Fixture other(Basic(ladder.method, ladder.root_dtype));
    FailEverywhere(kFaulty);
    other.CopyFrom(fixture);
    for (size_t p = 0; p < host.tensors.size(); ++p) other.host.tensors[p].g = host.tensors[p].g;
    host.Step();
    other.host.Step();
    CHECK(host.Everything() == other.host.Everything());
    CHECK(host.Stat("root_reused") == 4);

    // A successful refresh resets the count of failures.
    CHECK(shampoo_optimizer_step(host.optimizer, nullptr) == SHAMPOO_E_NUMERIC);
    Faults().Clear();
    host.Step();
    CHECK(!(host.Read(kFaultyInverse) == before));
    FailEverywhere(kFaulty);
    for (int refresh = 0; refresh < 3; ++refresh) fixture.Step();
    CHECK(shampoo_optimizer_step(host.optimizer, nullptr) == SHAMPOO_E_NUMERIC);
  }
}

TEST_CASE(
    "if the solver that needs no eigenvectors fails, rung kFloat64 computes the inverse square root and is counted") {
  const Keys keys = Basic("eigen", "f32") + Keys{{"inverse_root_override", "2"}};
  // The sizes of the factor matrices, 9 and 12, are at least kMinResolventSize, so ResolventRoot(), which needs no
  // eigenvectors, computes the roots first. It fails for matrix 1, only/0/factor.1.
  const std::vector<shampoo_param_desc> only = {Param("only", {9, 12})};
  Fixture sound(keys, only, 1);
  sound.Step();
  const Array expected = sound.host.Read("only/0/inverse.1");
  CHECK(sound.host.Stat("root_retried") == 0);
  for (const Fault fault : {Fault::kReported, Fault::kNan, Fault::kGarbage}) {
    CAPTURE(static_cast<int>(fault));
    Fixture faulty(keys, only, 1);
    Faults().Add(1, Rung::kRequested, fault);
    Listener listener(1);
    faulty.Step();
    // ResolventRoot() was called, but no eigendecomposition in float32 was tried afterwards.
    CHECK(Faults().Calls(1, Rung::kRequested) == 1);
    CHECK(faulty.host.Stat("root_retried") == 1);
    CHECK(faulty.host.Stat("root_retried_float64") == 1);
    CheckNear(faulty.host.Read("only/0/inverse.1"), expected);
    const std::vector<std::string> messages = listener.Take();
    REQUIRE(messages.size() == 1);
    CHECK_MESSAGE(Has(messages[0], {"only/0/factor.1", "could not be computed at first"}), messages[0]);
  }
}

TEST_CASE("with root_failure_tolerance=0, one failed refresh makes the next step fail, but no later step") {
  Fixture fixture(Basic("eigen", "f32") + Keys{{"root_failure_tolerance", "0"}});
  // Step 3 makes the third call of rung kRequested and, because that call fails, the first calls of the other rungs.
  for (const Rung rung : {Rung::kRequested, Rung::kFloat64, Rung::kEigenRrr, Rung::kEigenQr}) {
    Faults().Add(kFaulty, rung, Fault::kReported, rung == Rung::kRequested ? 2 : 0);
  }
  for (int step = 1; step <= 3; ++step) fixture.Step();
  CHECK(fixture.host.Stat("root_reused") == 1);
  CHECK(shampoo_optimizer_step(fixture.host.optimizer, nullptr) == SHAMPOO_E_NUMERIC);
  CHECK_MESSAGE(Has(shampoo_last_error(), {kFaultyName, "at 1 refresh, which"}), shampoo_last_error());
  fixture.Step();
  CHECK(fixture.host.Stat("root_reused") == 1);
  CHECK(shampoo_optimizer_step(fixture.host.optimizer, nullptr) == SHAMPOO_OK);
}

Keys BasisKeys(const Keys& method, const char* frequency) {
  return method + Keys{{"precondition_frequency", frequency}, {"root_failure_tolerance", "2"}};
}
const std::vector<Keys> kMethodsInEigenbases = {
    {{"method", "soap"}}, {{"method", "soap"}, {"factor_correction", "kl"}}, {{"method", "kl_shampoo"}}};

TEST_CASE(
    "if a basis cannot be computed, its dim keeps the old basis and eigenvalues, and moments do not rotate along it") {
  for (const Keys& method : kMethodsInEigenbases) {
    CAPTURE(method[0].second);
    CAPTURE(method.size());
    for (const bool both : {false, true}) {
      CAPTURE(both);
      Fixture fixture(BasisKeys(method, "1"));
      Fixture kept(BasisKeys(method, "100"));  // makes the same step without a refresh
      for (int t = 0; t < 3; ++t) fixture.Step();
      kept.CopyFrom(fixture);
      kept.random = fixture.random;
      FailEverywhere(kFaulty);
      if (both) FailEverywhere(kFaulty + 1);
      fixture.Step();
      kept.Step();
      CHECK(fixture.host.Stat("root_reused") == (both ? 2 : 1));
      CHECK(fixture.host.tensors[1].w == kept.host.tensors[1].w);
      for (const Host::Entry& entry : fixture.host.Entries()) {
        const std::string key = entry.info.key;
        CAPTURE(key);
        if (key.rfind("second/", 0) != 0) continue;
        const bool is_same = fixture.host.Read(entry) == kept.host.Read(key);
        const bool never_turns = key == "second/0/gradient_count" || key.find("factor") != std::string::npos;
        const bool is_of_failed_dim = key.back() == '0';
        CHECK(is_same == (both || never_turns || is_of_failed_dim));  // the new basis of dim 1 rotates the moments
      }
      CHECK(!(fixture.host.Read("first/0/basis.0") == kept.host.Read("first/0/basis.0")));
    }
  }
}

TEST_CASE("if several refreshes in a row cannot compute an eigenbasis, the next step fails and changes nothing") {
  for (const Keys& method : kMethodsInEigenbases) {
    CAPTURE(method[0].second);
    Fixture fixture(BasisKeys(method, "1"));
    Host& host = fixture.host;
    FailEverywhere(kFaulty);
    fixture.CheckReused(3, {"eigenbasis of second/0/factor.0 could not be computed", "previous eigenbasis"});
    // All refreshes failed, including the first one, so the basis is still the identity.
    const std::vector<double> basis = host.Read("second/0/basis.0").Values();
    for (size_t i = 0; i < basis.size(); ++i) CHECK(basis[i] == (i % 5 == 0 ? 1 : 0));
    for (const double value : host.tensors[1].w.Values()) CHECK(std::isfinite(value));

    fixture.StepFails({"eigenbasis of second/0/factor.0", "3 refreshes in a row", "root_failure_tolerance (2)",
                       "nothing", "learning rate"});
    Faults().Clear();
    fixture.Step();
    CHECK(host.Stat("root_reused") == 3);
    CHECK(!(host.Read("second/0/basis.0").Values() == basis));
  }
}

TEST_CASE(
    "when a rung fails, the next rung computes nearly the same basis, and the statistic of the next rung counts it") {
  const std::pair<Rung, const char*> rungs[] = {{Rung::kRequested, "root_eigen"},
                                                {Rung::kFloat64, "root_retried_float64"},
                                                {Rung::kEigenRrr, "root_retried_dsyevr"},
                                                {Rung::kEigenQr, "root_retried_dsyev"}};
  Fixture sound(BasisKeys(kMethodsInEigenbases[0], "1"));
  sound.Step();
  const Array expected = sound.host.Read("second/0/basis.0");
  for (size_t failing = 1; failing < 4; ++failing) {
    for (const Fault fault : {Fault::kReported, Fault::kNan, Fault::kGarbage}) {
      CAPTURE(failing);
      CAPTURE(static_cast<int>(fault));
      Fixture faulty(BasisKeys(kMethodsInEigenbases[0], "1"));
      for (size_t i = 0; i < failing; ++i) Faults().Add(kFaulty, rungs[i].first, fault);
      Listener listener(1);
      faulty.Step();
      CheckNear(faulty.host.Read("second/0/basis.0"), expected, true);
      CHECK(faulty.host.Stat("root_reused") == 0);
      CHECK(faulty.host.Stat("root_retried") == 1);
      CHECK(faulty.host.Stat(rungs[failing].second) == 1);
    }
  }
}

TEST_CASE("results after injected failures are the same for every number of threads") {
  std::vector<std::vector<std::vector<char>>> results;
  for (const int32_t threads : {1, 2, 5}) {
    Fixture fixture(Basic("newton", "f32"), {Param("first", {6, 5}), Param("second", {4, 7})}, threads);
    for (const Rung rung : {Rung::kRequested, Rung::kFloat64}) {
      Faults().Add(FaultPlan::kEveryMatrix, rung, Fault::kGarbage);
    }
    for (int step = 0; step < 4; ++step) fixture.Step();
    CHECK(fixture.host.Stat("root_retried_eigen") == 16);  // 4 factor matrices in 4 steps
    results.push_back(fixture.host.Everything());
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE(
    "shampoo_matrix_inverse_root uses the same recovery ladder as steps and reports the number of further attempts") {
  std::vector<float> a = {4, 1, 0, 1, 3, 1, 0, 1, 5};
  std::vector<float> x(9);
  for (const Ladder& ladder : Ladders()) {
    CAPTURE(std::string(ladder.method));
    const ConfigPtr config =
        MakeConfig({{"root_method", ladder.method}, {"root_dtype", ladder.root_dtype}, {"epsilon", "1e-6"}});
    for (size_t failing = 0; failing <= ladder.rungs.size(); ++failing) {
      Faults().Clear();
      for (size_t i = 0; i < failing; ++i) Faults().Add(0, ladder.rungs[i].first, Fault::kGarbage);
      shampoo_root_info info = SHAMPOO_ROOT_INFO_INIT;
      const std::vector<float> before = x;
      const shampoo_status status =
          shampoo_matrix_inverse_root(config.get(), 3, SHAMPOO_F32, a.data(), x.data(), 4, 1, &info);
      if (failing == ladder.rungs.size()) {
        CHECK(status == SHAMPOO_E_NUMERIC);
        CheckLastError({"3 x 3", "wrong result"});
        CHECK(x == before);
      } else {
        CHECK(status == SHAMPOO_OK);
        CHECK(info.retried == static_cast<int32_t>(failing));
        CHECK(info.residual < 1e-4);
      }
    }
  }
  Faults().Clear();
}

}  // namespace
}  // namespace shampoo_test
