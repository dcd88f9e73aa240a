// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/tensor_reference.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

// Shapes with dims around 128. If a dim is 128 or more, only one triangle of its factor matrix and of its inverse root
// is stored.
const std::vector<std::vector<int>> kShapes = {{130, 3}, {2, 131}, {129, 2, 2}, {2, 128, 2}, {140}};

// Returns for each set of dtypes the largest difference of the parameter from the float64 reference after four steps.
std::vector<double> DifferencesFromReference(const std::vector<int>& shape, const std::vector<Keys>& dtypes) {
  TensorReference reference(shape);
  reference.frequency = 2;
  reference.start = 2;
  reference.epsilon = 0.5;  // large: with a small epsilon, roots of rank-deficient matrices amplify rounding errors
  std::vector<double> w;
  std::vector<double> found;
  for (const Keys& keys : dtypes) {
    Host host(KeysOf(reference) + keys, {Param("w", {shape.begin(), shape.end()}, SHAMPOO_F64)});
    std::mt19937_64 random = host.FillFrom(8);
    const bool first = w.empty();  // the reference is the same for all dtypes
    if (first) w = host.tensors[0].w.Values();
    for (int t = 1; t <= 4; ++t) {
      host.FillGradients(random);
      if (first) reference.Step(t, host.tensors[0].g.Values(), &w);
      host.Step();
    }
    found.push_back(DistanceOf(w, host.tensors[0].w.Values()));
  }
  return found;
}

TEST_CASE("steps with factor matrices and inverse roots that are stored as triangles agree with the reference") {
  for (const std::vector<int>& shape : kShapes) {
    CAPTURE_ALL(shape.size(), shape[0]);
    // A factor matrix and its inverse root share an array if their dtypes are equal. Otherwise, each triangle has a
    // separate array.
    const std::vector<double> differences = DifferencesFromReference(
        shape, {{}, "factor_dtype=f32 inverse_dtype=f32", "factor_dtype=f32", "inverse_dtype=f32"});
    CHECK(differences[0] < 1e-9);
    for (size_t d = 1; d < 4; ++d) CHECK(differences[d] < 1e-4);
  }
}

TEST_CASE(
    "triangular states are read as whole symmetric matrices, and writing them ignores the elements above the "
    "diagonal") {
  for (const Keys& dtypes : {Keys{}, Keys("inverse_dtype=bf16"), Keys("factor_dtype=f16 inverse_dtype=f16")}) {
    const Keys keys =
        Keys("grafting=adam momentum=0.9 filtered_grad_dtype=f16 precondition_frequency=2 max_preconditioner_dim=200") +
        dtypes;
    const std::vector<shampoo_param_desc> params = {Param("w", {150, 200}), Param("b", {9}), Param("t", {2, 3, 2})};
    Host first(keys, params);
    Host second(keys, params);
    std::mt19937_64 random = first.FillFrom(1);
    for (int t = 0; t < 3; ++t) first.RandomStep(random);
    for (const Host::Entry& entry : first.Entries()) {
      Array values = first.Read(entry);
      if (entry.info.symmetric != 0) {
        const auto d = static_cast<size_t>(entry.info.shape[0]);
        const std::vector<double> full = values.Values();
        bool symmetric = true;
        for (size_t i = 0; i < d; ++i) {
          for (size_t j = 0; j < i; ++j) symmetric = symmetric && full[i * d + j] == full[j * d + i];
        }
        CHECK(symmetric);
        const auto size = static_cast<size_t>(values.bytes().size() / entry.elements);
        CHECK(entry.info.stored_bytes == static_cast<int64_t>(size * (d < 128 ? d * d : d * (d + 1) / 2)));
        // This test overwrites the elements above the diagonal, because a write of the state must ignore them.
        std::vector<char> bytes = values.bytes();
        for (size_t i = 0; i < d; ++i)
          std::fill(bytes.begin() + static_cast<std::ptrdiff_t>((i * d + i + 1) * size),
                    bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * d * size), char{77});
        // The test writes the matrix in two ranges whose border is within a row.
        const auto cut = static_cast<int64_t>(d * d / 2 + 1);
        RequireOk(shampoo_state_write(second.optimizer, entry.index, 0, cut, bytes.data(), bytes.size(), SHAMPOO_CPU,
                                      nullptr));
        RequireOk(shampoo_state_write(second.optimizer, entry.index, cut, static_cast<int64_t>(d * d) - cut,
                                      bytes.data() + static_cast<size_t>(cut) * size, bytes.size(), SHAMPOO_CPU,
                                      nullptr));
      } else {
        second.Write(entry.info.key, values);
      }
    }
    second.CopyParams(first);
    CHECK(second.Everything() == first.Everything());
    for (int t = 0; t < 3; ++t) StepBoth(&first, &second, random);
    CHECK(second.Everything() == first.Everything());
  }
}

TEST_CASE("NaN in a factor matrix is not confused with NaN in the inverse root that shares its array") {
  Host host(Keys("use_merge_dims=false"), {Param("w", {130, 2}, SHAMPOO_F64)});
  std::mt19937_64 random = host.FillFrom(1);
  host.RandomStep(random);
  const Host::Entry inverse = host.Find("w/0/inverse.0");
  const double nan = std::nan("");
  RequireOk(shampoo_state_write(host.optimizer, inverse.index, 0, 1, &nan, sizeof nan, SHAMPOO_CPU, nullptr));
  host.Step();  // refreshes all roots and thereby replaces the NaN
  CHECK(std::isfinite(host.Read("w/0/inverse.0").Values()[0]));
  const Host::Entry factor = host.Find("w/0/factor.0");
  RequireOk(shampoo_state_write(host.optimizer, factor.index, 129 * 130, 1, &nan, sizeof nan, SHAMPOO_CPU, nullptr));
  host.Bind();
  CHECK(shampoo_optimizer_step(host.optimizer, nullptr) == SHAMPOO_E_NUMERIC);
  CHECK(std::string(shampoo_last_error()).find("w/0/factor.0 has NaN") != std::string::npos);
}

}  // namespace
}  // namespace shampoo_test
