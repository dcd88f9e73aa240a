// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of methods soap and kl_shampoo: steps that refresh eigenbases, runs that continue from copied states, weight
// decay, missing gradients, blocks, threads and invalid states.

#include "tests/capi/behaviour/basis_host.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

TEST_CASE("a run of soap or kl_shampoo that continues from copied states is bit-identical to the uninterrupted run") {
  for (const Keys& method : kBasisMethods) {
    for (const int stop : {1, 2, 4}) {
      CAPTURE_ALL(method, stop);
      const Keys keys = method + "precondition_frequency=3 lr=0.01";
      const std::vector<shampoo_param_desc> params = {Param("w", {6, 4}), Param("b", {5})};
      Host run(keys, params);
      Host resumed(keys, params);
      std::mt19937_64 random = run.FillFrom(4);
      for (int t = 1; t <= stop; ++t) run.RandomStep(random);
      CHECK(run.Read("w/0/gradient_count").Get(0) == stop);
      CopyStates(run, &resumed);
      resumed.CopyParams(run);
      for (int t = 0; t < 5; ++t) {
        StepBoth(&run, &resumed, random);
        CHECK(run.Everything() == resumed.Everything());
      }
    }
  }
}

TEST_CASE("NaN in a state of soap or kl_shampoo never reaches the parameter") {
  const std::vector<shampoo_param_desc> params = {Param("w", {4, 3}, SHAMPOO_F64)};
  for (const Keys& method : kBasisMethods) {
    for (const Keys& keys : Combinations("basis_method=eigen|qr precondition_frequency=2 lr=0.01")) {
      const auto make = [&] {
        auto host = std::make_unique<Host>(method + keys, params);
        std::mt19937_64 random(1);
        for (int t = 0; t < 4; ++t) host->RandomStep(random);
        return host;
      };
      const std::unique_ptr<Host> sound = make();
      for (const Host::Entry& entry : sound->Entries()) {
        const std::string key = entry.info.key;
        if (entry.info.dtype != SHAMPOO_F64) continue;
        CAPTURE_ALL(method, keys, key);
        const std::unique_ptr<Host> host = make();
        Array values = host->Read(key);
        values.Set(0, NAN);
        host->Write(key, values);
        const Array before = host->tensors[0].w;
        host->Bind();
        const bool is_factor = Has(key, {"factor"});
        CHECK(host->TryStep() == (is_factor ? SHAMPOO_E_NUMERIC : SHAMPOO_OK));
        CHECK(host->tensors[0].w == before);
        // The next call reports a skipped update.
        host->CheckStepFails(SHAMPOO_E_NUMERIC, {is_factor ? "has NaN" : "not finite", "w/0"});
      }
    }
  }
}

TEST_CASE("with basis_tolerance=1, no refresh changes an existing basis") {
  for (const Keys& keys : Combinations("precondition_frequency=1 basis_tolerance=1 basis_method=eigen|qr")) {
    Host host(kSoap + keys, {Param("w", {3, 4}, SHAMPOO_F64)});
    std::mt19937_64 random(8);
    DirectionOf(&host, RandomElements(12, &random));
    const Array basis = host.Read("w/0/basis.1");
    for (int gradient = 2; gradient <= 6; ++gradient) DirectionOf(&host, RandomElements(12, &random));
    CHECK(host.Read("w/0/basis.1") == basis);
  }
}

TEST_CASE("with basis_order=after, a direction uses only bases and eigenvalues of earlier gradients") {
  for (const Keys& method : kBasisMethods) {
    CAPTURE(method);
    Host refreshes(method + "precondition_frequency=1 shampoo_beta=0.5", {Param("w", {4, 3}, SHAMPOO_F64)});
    Host keeps(method + "precondition_frequency=100 shampoo_beta=0.5", {Param("w", {4, 3}, SHAMPOO_F64)});
    std::mt19937_64 random(8);
    for (int gradient = 1; gradient <= 3; ++gradient) {
      const BasisVector g = RandomElements(12, &random);
      const bool is_same = DirectionOf(&refreshes, g) == DirectionOf(&keeps, g);
      CHECK(is_same == (gradient <= 2));
      if (gradient == 2) {
        // Step 2 updates the factor matrices before it refreshes the bases. With method kl_shampoo or
        // factor_correction=kl, this update uses the old bases, which are the same in both hosts.
        CHECK(refreshes.Read("w/0/factor.0") == keeps.Read("w/0/factor.0"));
        CHECK(refreshes.Read("w/0/factor.1") == keeps.Read("w/0/factor.1"));
        CHECK(!(refreshes.Read("w/0/basis.0") == keeps.Read("w/0/basis.0")));
      }
    }
  }
}

TEST_CASE("with basis_order=before, bases change at start_preconditioning_step and at each later refresh") {
  Host host(kSoap + "basis_order=before precondition_frequency=3 start_preconditioning_step=4",
            {Param("w", {3, 4}, SHAMPOO_F64)});
  CHECK(BasisChanges(&host, 9, [] {}) == std::vector<int>{4, 6, 9});
}

TEST_CASE("with soap and kl_shampoo the results for a parameter do not depend on steps in which it has no gradient") {
  for (const Keys& method : kBasisMethods) {
    CAPTURE(method);
    const Keys keys = method + "precondition_frequency=2 lr=0.01 weight_decay=0.1";
    Host sparse(keys, {Param("w", {4, 3}), Param("other", {3, 2})});
    Host dense(keys, {Param("w", {4, 3})});
    std::mt19937_64 random = sparse.FillFrom(8);
    dense.tensors[0].w = sparse.tensors[0].w;
    for (int t = 0; t < 12; ++t) {
      sparse.FillGradients(random);
      sparse.tensors[0].has_grad = t > 1 && t % 3 != 0;
      sparse.Step();
      if (sparse.tensors[0].has_grad) {
        dense.tensors[0].g = sparse.tensors[0].g;
        dense.Step();
      }
      CHECK(sparse.tensors[0].w == dense.tensors[0].w);
      for (const Host::Entry& entry : dense.Entries()) {
        const std::string key = entry.info.key;
        if (key.rfind("w/", 0) == 0) CHECK(sparse.Read(key) == dense.Read(entry));
      }
    }
  }
}

TEST_CASE("with soap and kl_shampoo, weight decay follows weight_decay_type, and the first gradient causes no decay") {
  const double lr = 0.1, decay = 0.2;
  const struct {
    const char* type;
    double of_direction, of_parameter;  // the new W is `of_parameter` * W - `of_direction` * P
  } cases[] = {{"decoupled", lr, 1 - lr * decay},
               {"decoupled_after", lr * (1 - lr * decay), 1 - lr * decay},
               {"independent", lr, 1 - decay},
               {"palm", lr, 1 - lr * lr * decay}};
  for (const Keys& method : kBasisMethods) {
    for (const auto& one : cases) {
      CAPTURE_ALL(method, one.type);
      const std::vector<shampoo_param_desc> params = {Param("w", {4, 3}, SHAMPOO_F64)};
      Host host(method + Keys{{"lr", "0.1"}, {"weight_decay", "0.2"}, {"weight_decay_type", one.type}}, params);
      Host plain(method, params);
      std::mt19937_64 random = host.FillFrom(8);
      for (int t = 0; t < 3; ++t) {
        host.FillGradients(random);
        const BasisVector before = host.tensors[0].w.Values();
        host.Step();
        const BasisVector direction = DirectionOf(&plain, host.tensors[0].g.Values());
        const BasisVector expected = t == 0 ? before : SumOf(one.of_parameter, before, -one.of_direction, direction);
        CHECK(DistanceOf(host.tensors[0].w.Values(), expected) < 1e-14);
      }
    }
  }
}

TEST_CASE("dims longer than skip_dim_size have no factor matrix and are neither split nor merged") {
  const struct {
    std::vector<int64_t> shape;
    Keys keys;
    std::vector<std::string> factors;
    size_t blocks;
  } cases[] = {
      {{6, 4}, "skip_dim_size=6", {"factor.0", "factor.1"}, 1},
      {{6, 4}, "skip_dim_size=5", {"factor.1"}, 1},
      {{6, 4}, "skip_dim_size=3", {}, 1},
      {{6, 4}, "skip_dim_size=0", {"factor.0", "factor.1"}, 1},
      {{9, 4}, "skip_dim_size=5 max_preconditioner_dim=2", {"factor.1"}, 2},
      {{2, 2, 9, 2}, "skip_dim_size=8 use_merge_dims=true", {"factor.0", "factor.2"}, 1},
      {{5}, {}, {}, 1},
      {{5}, "precondition_1d=true", {"factor.0"}, 1},
  };
  for (const Keys& method : kBasisMethods) {
    for (const auto& one : cases) {
      CAPTURE_ALL(method, one.shape, one.keys);
      const Host host(method + one.keys, {Param("w", one.shape)});
      std::vector<std::string> factors;
      for (const Host::Entry& entry : host.Entries()) {
        const std::string key = entry.info.key;
        if (key.rfind("w/0/factor.", 0) == 0) factors.push_back(key.substr(4));
      }
      CHECK(factors == one.factors);
      CHECK(BlocksOf(host.plan).size() == one.blocks);
    }
  }
}

TEST_CASE("each block of a parameter is updated like a separate parameter") {
  for (const Keys& method : kBasisMethods) {
    CAPTURE(method);
    const Keys keys = method + "precondition_frequency=2 lr=0.01 max_preconditioner_dim=6";
    Host whole(keys, {Param("w", {12, 5})});
    Host halves(keys, {Param("upper", {6, 5}), Param("lower", {6, 5})});
    std::mt19937_64 random(8);
    for (int t = 0; t < 6; ++t) {
      whole.FillGradients(random);
      for (size_t i = 0; i < 60; ++i) halves.tensors[i / 30].g.Set(i % 30, whole.tensors[0].g.Get(i));
      whole.Step();
      halves.Step();
    }
    for (size_t i = 0; i < 60; ++i) CHECK(whole.tensors[0].w.Get(i) == halves.tensors[i / 30].w.Get(i % 30));
    CHECK(halves.Read("lower/0/basis.1") == whole.Read("w/1/basis.1"));
  }
}

TEST_CASE("steps of soap and kl_shampoo are bit-identical for every number of threads") {
  for (const Keys& method : kBasisMethods) {
    for (const Keys& keys : Combinations("basis_method=eigen|qr precondition_frequency=2 lr=0.01")) {
      CAPTURE_ALL(method, keys);
      CheckThreads(method + keys, {Param("w", {150, 130}), Param("t", {6, 30, 5}), Param("b", {300})}, 4);
    }
  }
}

TEST_CASE("a step with an invalid gradient_count in the state fails and changes nothing") {
  for (const Keys& method : kBasisMethods) {
    Host host(method, {Param("w", {4, 3}), Param("b", {5})});
    host.StepFrom(8);
    for (const std::string key : {"w/0/gradient_count", "b/0/gradient_count"}) {
      for (const int64_t count : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 53}) {
        CAPTURE_ALL(method, key, count);
        const Host::Entry entry = host.Find(key);
        RequireOk(shampoo_state_write(host.optimizer, entry.index, 0, 1, &count, sizeof count, SHAMPOO_CPU, nullptr));
        host.CheckStepFails(SHAMPOO_E_STATE, {key.c_str(), std::to_string(count).c_str(), "expected 0 to 2^53"});
      }
      host.WriteValues(key, {1});
    }
    host.Step();
  }
}

}  // namespace
}  // namespace shampoo_test
