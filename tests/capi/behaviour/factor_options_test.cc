// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of keys that select when factor matrices are updated and which dims have a factor matrix, and of keys that
// control the norms of parameters and updates.
#include <set>

#include "tests/capi/behaviour/basis_host.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

struct FactorMethod {
  const char* name;
  Keys keys;
};
const std::vector<FactorMethod> kFactorMethods = {{"shampoo", "refresh_growth=0 grafting=adam use_merge_dims=false"},
                                                  {"soap", "method=soap"},
                                                  {"KL-SOAP", "method=soap factor_correction=kl"},
                                                  {"kl_shampoo", "method=kl_shampoo"}};

// Makes one step for each element of `gradients`. The element is the seed of the random gradients of the step.
void StepWith(Host* host, const std::vector<uint64_t>& gradients) {
  for (const uint64_t number : gradients) host->StepFrom(number);
}

std::vector<uint64_t> NumbersUpTo(uint64_t last) {
  std::vector<uint64_t> numbers(last);
  std::iota(numbers.begin(), numbers.end(), uint64_t{1});
  return numbers;
}

// Checks that eight steps with these keys are bit-identical to eight steps without them, for each method.
void CheckDefault(const Keys& keys, const std::vector<shampoo_param_desc>& params) {
  for (const FactorMethod& method : kFactorMethods) {
    CAPTURE(method.name);
    Host with(method.keys + "precondition_frequency=3" + keys, params);
    Host without(method.keys + "precondition_frequency=3", params);
    for (Host* const host : {&with, &without}) StepWith(host, NumbersUpTo(8));
    CHECK(with.Everything() == without.Everything());
  }
}

Keys FrequencyKeys(const char* factor_updates, const char* refreshes) {
  return "beta2=0.75 use_bias_correction=true" +
         Keys{{"factor_update_frequency", factor_updates}, {"precondition_frequency", refreshes}};
}

TEST_CASE("a run with factor_update_frequency=1 is bit-identical to a run without the key") {
  CheckDefault("factor_update_frequency=1", {Param("w", {6, 5}), Param("b", {4})});
}

TEST_CASE("with factor_update_frequency=3, factor matrices change only at updates 1, 4 and 7 of their block") {
  for (const FactorMethod& method : kFactorMethods) {
    CAPTURE(method.name);
    // With soap and kl_shampoo, the first gradient initializes the factor matrices and is not counted as an update.
    const uint64_t first = method.keys[0].first == "method" ? 1 : 0;
    const std::vector<shampoo_param_desc> params = {Param("w", {6, 5}, SHAMPOO_F64)};
    Host host(method.keys + FrequencyKeys("3", "100"), params);
    std::vector<uint64_t> changes;
    std::vector<Array> factors = {host.Read("w/0/factor.0"), host.Read("w/0/factor.1")};
    for (uint64_t gradient = 1; gradient <= first + 9; ++gradient) {
      StepWith(&host, {gradient});
      const std::vector<Array> now = {host.Read("w/0/factor.0"), host.Read("w/0/factor.1")};
      if (!(now == factors)) changes.push_back(gradient);
      CHECK((now[0] == factors[0]) == (now[1] == factors[1]));
      factors = now;
    }
    std::vector<uint64_t> expected = {first + 1, first + 4, first + 7};
    if (first == 1) expected.insert(expected.begin(), 1);
    CHECK(changes == expected);
    // The other gradients do not even decay the factor matrices: an optimizer that gets only the gradients in
    // `expected` has bit-identical factor matrices.
    Host only(method.keys + FrequencyKeys("1", "100"), params);
    StepWith(&only, expected);
    CHECK(only.Read("w/0/factor.0") == factors[0]);
    CHECK(only.Read("w/0/factor.1") == factors[1]);
    for (const Host::Entry& entry : only.Entries()) {
      const std::string key = entry.info.key;
      if (key.find("kl_scale") != std::string::npos) CHECK(only.Read(entry) == host.Read(key));
      if (key.find("basis") != std::string::npos) CHECK(only.Read(entry) == host.Read(key));
    }
  }
}

TEST_CASE("the bias correction of a factor matrix counts its updates, not the steps") {
  const Keys& keys = kFactorMethods[0].keys;
  const std::vector<shampoo_param_desc> params = {Param("w", {6, 5}, SHAMPOO_F64)};
  Host host(keys + FrequencyKeys("3", "7"), params);
  StepWith(&host, NumbersUpTo(7));
  Host only(keys + FrequencyKeys("1", "3"), params);
  StepWith(&only, {1, 4, 7});
  CHECK(host.Read("w/0/inverse.0") == only.Read("w/0/inverse.0"));
  CHECK(host.Read("w/0/inverse.1") == only.Read("w/0/inverse.1"));
}

TEST_CASE("a run with precondition_dims=all is bit-identical to a run without the key") {
  CheckDefault("precondition_dims=all", {Param("w", {6, 5}), Param("t", {3, 2, 4})});
}

// Returns the dims of the first parameter that have a factor matrix.
std::set<int> DimsWithFactors(const Host& host) {
  std::set<int> dims;
  for (const Host::Entry& entry : host.Entries()) {
    const std::string key = entry.info.key;
    const std::string prefix = "w/0/factor.";
    if (key.rfind(prefix, 0) == 0) dims.insert(key[prefix.size()] - '0');
  }
  return dims;
}

TEST_CASE("precondition_dims=smaller and precondition_dims=larger select one dim and prefer the first of equal dims") {
  const struct {
    std::vector<int64_t> shape;
    int smaller, larger;
  } cases[] = {{{6, 4}, 1, 0}, {{4, 6}, 0, 1}, {{5, 5}, 0, 0}, {{3, 2, 4}, 1, 2}, {{4, 2, 4}, 1, 0}};
  for (const FactorMethod& method : kFactorMethods) {
    for (const auto& one : cases) {
      CAPTURE_ALL(method.name, one.shape);
      const auto dims = [&](const char* value) {
        return DimsWithFactors(Host(method.keys + Keys{{"precondition_dims", value}}, {Param("w", one.shape)}));
      };
      CHECK(dims("smaller") == std::set<int>{one.smaller});
      CHECK(dims("larger") == std::set<int>{one.larger});
      CHECK(dims("all").size() == one.shape.size());
    }
    // Dims are compared before a parameter is split into blocks. A dim without a factor matrix is not split.
    Host split(method.keys + "precondition_dims=smaller max_preconditioner_dim=4", {Param("w", {12, 5})});
    CHECK(DimsWithFactors(split) == std::set<int>{1});
    CHECK(BlocksOf(split.plan).size() == 2);
    // If precondition_1d is true, the only dim of a vector has a factor matrix with any value of precondition_dims.
    CHECK(DimsWithFactors(Host(method.keys + "precondition_dims=smaller precondition_1d=true", {Param("w", {5})})) ==
          std::set<int>{0});
  }
}

TEST_CASE("a matrix that has one column and one factor matrix is updated like a vector") {
  for (const FactorMethod& method : kFactorMethods) {
    CAPTURE(method.name);
    const Keys keys = method.keys + "precondition_frequency=2 precondition_1d=true";
    Host matrix(keys + "precondition_dims=larger", {Param("w", {7, 1}, SHAMPOO_F64)});
    Host vector(keys, {Param("w", {7}, SHAMPOO_F64)});
    StepWith(&matrix, NumbersUpTo(9));
    StepWith(&vector, NumbersUpTo(9));
    const std::vector<double> expected = vector.tensors[0].w.Values();
    const std::vector<double> values = matrix.tensors[0].w.Values();
    for (size_t i = 0; i < 7; ++i) CHECK(values[i] == doctest::Approx(expected[i]).epsilon(1e-11));
    CHECK(values[0] != 0);
  }
}

TEST_CASE(
    "with norm_control=hyperball, a parameter keeps its initial norm, and no step moves it much farther than lr times "
    "this norm") {
  for (const FactorMethod& method : kFactorMethods) {
    CAPTURE(method.name);
    // With soap and kl_shampoo, the first step does not update the parameter.
    const bool skips_first = method.keys[0].first == "method";
    Host host(method.keys + "norm_control=hyperball lr=0.01", {Param("w", {6, 5}, SHAMPOO_F64)});
    host.FillFrom(9);
    const Array start = host.tensors[0].w;
    const double radius = NormOf(start.Values());
    StepWith(&host, {1});
    CHECK((host.tensors[0].w == start) == skips_first);
    CHECK(host.Read("w/0/radius").Get(0) == (skips_first ? 0 : doctest::Approx(radius)));
    for (uint64_t gradient = 2; gradient <= 12; ++gradient) {
      const std::vector<double> before = host.tensors[0].w.Values();
      StepWith(&host, {gradient});
      const std::vector<double> after = host.tensors[0].w.Values();
      CHECK(NormOf(after) == doctest::Approx(radius).epsilon(1e-13));
      const double moved = NormOf(SumOf(1, after, -1, before));
      // A step moves the parameter by lr times the radius and then back to the sphere of this radius. The move back
      // increases the distance from `before` only slightly, if at all.
      CHECK(moved <= 0.01 * radius * (1 + 1e-2));
      CHECK(moved > 0.001 * radius);
    }
    CHECK(host.Read("w/0/radius").Get(0) == doctest::Approx(radius));
  }
}

TEST_CASE("norm_control=hyperball does not update a parameter of zeros unless norm_radius is set") {
  for (const FactorMethod& method : kFactorMethods) {
    CAPTURE(method.name);
    const Keys keys = method.keys + "norm_control=hyperball lr=0.01 on_nonfinite=skip_block";
    const std::vector<shampoo_param_desc> params = {Param("w", {6, 5}, SHAMPOO_F64)};
    Host host(keys, params);
    StepWith(&host, {1, 2, 3});
    CHECK(NormOf(host.tensors[0].w.Values()) == 0);
    CHECK(host.Stat("nonfinite_blocks") > 0);
    // With on_nonfinite=error, the default, the next call reports the skipped update.
    Host strict(method.keys + "norm_control=hyperball", params);
    int errors = 0;
    for (int t = 0; t < 3; ++t) {
      std::mt19937_64 random(1);
      strict.FillGradients(random);
      strict.Bind();
      if (strict.TryStep() == SHAMPOO_OK) continue;
      ++errors;
      CheckLastError({"w/0", "is 0", "norm_control=hyperball", "norm_radius"});
    }
    CHECK(errors == 1);
    Host with_radius(keys + "norm_radius=2", params);
    StepWith(&with_radius, {1, 2, 3});
    CHECK(NormOf(with_radius.tensors[0].w.Values()) == doctest::Approx(2).epsilon(1e-13));
    CHECK(with_radius.Stat("nonfinite_blocks") == 0);
  }
}

TEST_CASE("update_norm sets the norm of the direction, and max_update_rms limits its root mean square") {
  for (const FactorMethod& method : kFactorMethods) {
    CAPTURE(method.name);
    const auto moved = [&](const Keys& more) {
      Host host(method.keys + "lr=1" + more, {Param("w", {6, 5}, SHAMPOO_F64)});
      StepWith(&host, {1});
      const std::vector<double> before = host.tensors[0].w.Values();
      StepWith(&host, {2});
      return NormOf(SumOf(1, host.tensors[0].w.Values(), -1, before));
    };
    const double root = std::sqrt(30.0);
    CHECK(moved("update_norm=rms") == doctest::Approx(root).epsilon(1e-12));
    CHECK(moved("update_norm=frobenius update_norm_target=3") == doctest::Approx(3).epsilon(1e-12));
    CHECK(moved("max_update_rms=1e-3") == doctest::Approx(1e-3 * root).epsilon(1e-12));
    CHECK(moved("max_update_rms=1e6") == doctest::Approx(moved({})).epsilon(1e-12));
  }
}

}  // namespace
}  // namespace shampoo_test
