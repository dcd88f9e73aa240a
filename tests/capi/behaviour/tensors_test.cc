// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/tensor_reference.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

std::vector<int64_t> Wide(const std::vector<int>& shape) { return {shape.begin(), shape.end()}; }

// Makes 12 steps of a parameter that is one block. Compares the parameter with that of the reference after each step,
// and returns the largest difference.
double DifferenceOf(TensorReference reference, const Keys& more, const std::vector<int64_t>& param_shape) {
  Host host(KeysOf(reference) + more, {Param("w", param_shape, SHAMPOO_F64)});
  std::mt19937_64 random = host.FillFrom(8);
  std::vector<double> w = host.tensors[0].w.Values();
  double largest = 0;
  for (int t = 1; t <= 12; ++t) {
    host.FillGradients(random);
    reference.Step(t, host.tensors[0].g.Values(), &w);
    host.Step();
    largest = std::max(largest, DistanceOf(w, host.tensors[0].w.Values()));
  }
  return largest;
}

TEST_CASE("blocks of the orders 1 to 5 agree with the reference") {
  const std::vector<std::vector<int>> shapes = {{1},       {7},          {4, 1},       {1, 5},          {3, 4, 2},
                                                {2, 1, 3}, {2, 3, 2, 4}, {1, 1, 1, 1}, {2, 2, 2, 2, 3}, {8, 9, 10}};
  for (const std::vector<int>& shape : shapes) {
    for (const char* const grafting : {"rmsprop", "none"}) {
      TensorReference reference(shape);
      reference.grafting = grafting;
      reference.frequency = 2;
      reference.start = reference.grafting == "none" ? 3 : 5;
      reference.multiplier = shape.size() == 2 ? 1.25 : 1;
      reference.scale = 0.75;
      CAPTURE_ALL(shape.size(), shape[0]);
      CHECK(DifferenceOf(reference, {}, Wide(shape)) < 1e-9);
    }
  }
}

TEST_CASE("combinations of options agree with the reference") {
  for (const std::string grafting : {"none", "sgd", "adagrad", "rmsprop", "adam"}) {
    for (int bits = 0; bits < 64; ++bits) {
      TensorReference reference({5, 4});
      reference.grafting = grafting;
      reference.graft_beta2 = grafting == "rmsprop" || grafting == "adam" ? 0.95 : 1;
      reference.coupled = (bits & 1) != 0;
      reference.weight_decay = (bits & 3) != 0 ? 0.05 : 0;
      reference.momentum = (bits & 2) != 0 ? 0.8 : 0;
      reference.nesterov = (bits & 4) != 0;
      reference.bias_correction = (bits & 8) != 0;
      reference.beta1 = (bits & 16) != 0 ? 0.9 : 0;
      reference.beta2 = (bits & 32) != 0 ? 0.97 : 1;
      reference.epsilon = 1e-6;
      reference.frequency = 1 + bits % 3;
      reference.start = reference.frequency + bits % 5;
      reference.root = bits % 7 == 0 ? 2 : 4;
      reference.multiplier = bits % 5 == 0 ? 1.5 : 1;
      CAPTURE_ALL(grafting, bits);
      CHECK(DifferenceOf(reference, {{"inverse_root_override", bits % 7 == 0 ? "2" : "0"}}, {5, 4}) < 1e-9);
    }
  }
}

TEST_CASE("inverse_root_override selects the root by the order of the block") {
  const std::vector<std::vector<int>> shapes = {{5}, {3, 4}, {2, 3, 2}, {2, 2, 2, 2}};
  // In a list such as 7,3,5,0, entry k, counted from 0, is the root for blocks of order k. If this entry is 0 or
  // missing, the root is 2 k.
  const double roots[] = {3, 5, 0, 0};
  for (size_t i = 0; i < shapes.size(); ++i) {
    TensorReference reference(shapes[i]);
    reference.root = roots[i];
    CHECK(DifferenceOf(reference, "inverse_root_override=7,3,5,0", Wide(shapes[i])) < 1e-9);
    reference.root = 3;
    CHECK(DifferenceOf(reference, "inverse_root_override=3", Wide(shapes[i])) < 1e-9);
    CHECK(DifferenceOf(reference, "inverse_root_override=7,4,4,5,6", Wide(shapes[i])) > 1e-3);
  }
}

TEST_CASE("merged dims form one dim of the block") {
  struct Case {
    std::vector<int64_t> param_shape;
    const char* largest;
    std::vector<int> merged;
  };
  const Case cases[] = {{{2, 3, 4}, "6", {6, 4}}, {{3, 1, 2, 1}, "6", {6}}, {{1, 4, 3}, "4", {4, 3}},
                        {{1, 1}, "8", {1}},       {{}, "8", {1}},           {{2, 2, 2, 3}, "5", {4, 2, 3}}};
  for (const Case& one : cases) {
    CAPTURE_ALL(one.largest, one.param_shape.size());
    CHECK(DifferenceOf(TensorReference(one.merged),
                       {{"use_merge_dims", "true"}, {"max_preconditioner_dim", one.largest}}, one.param_shape) < 1e-9);
  }
}

// Each dim is divided into chunks of length 3 or less.
TEST_CASE("a parameter of many blocks agrees with a separate reference for each block, even if gradients are missing") {
  const std::vector<int> shape = {4, 7, 5};
  const auto linear = [&](int i, int j, int k) { return static_cast<size_t>((i * shape[1] + j) * shape[2] + k); };
  struct Piece {
    std::vector<size_t> elements;
    TensorReference reference;
  };
  std::vector<Piece> pieces;
  for (int i = 0; i < shape[0]; i += 3) {
    for (int j = 0; j < shape[1]; j += 3) {
      for (int k = 0; k < shape[2]; k += 3) {
        const int ends[] = {std::min(i + 3, shape[0]), std::min(j + 3, shape[1]), std::min(k + 3, shape[2])};
        Piece piece{{}, TensorReference({ends[0] - i, ends[1] - j, ends[2] - k})};
        for (int a = i; a < ends[0]; ++a) {
          for (int b = j; b < ends[1]; ++b) {
            for (int c = k; c < ends[2]; ++c) piece.elements.push_back(linear(a, b, c));
          }
        }
        piece.reference.start = 3;
        piece.reference.frequency = 3;
        pieces.push_back(std::move(piece));
      }
    }
  }
  REQUIRE(pieces.size() == 12);
  Host host(KeysOf(pieces[0].reference) + "max_preconditioner_dim=3",
            {Param("w", Wide(shape), SHAMPOO_F64), Param("other", {2}, SHAMPOO_F64)});
  std::mt19937_64 random = host.FillFrom(10);
  std::vector<double> w = host.tensors[0].w.Values();
  for (int t = 1; t <= 14; ++t) {
    host.FillGradients(random);
    // The gradient is missing at step 8, and at each refresh except the refresh of step 12.
    host.tensors[0].has_grad = t == 12 || (t % 3 != 0 && t != 8);
    const std::vector<double> g = host.tensors[0].g.Values();
    for (Piece& piece : pieces) {
      if (!host.tensors[0].has_grad) break;
      std::vector<double> part, gradient;
      for (const size_t at : piece.elements) part.push_back(w[at]), gradient.push_back(g[at]);
      piece.reference.Step(t, gradient, &part);
      for (size_t n = 0; n < part.size(); ++n) w[piece.elements[n]] = part[n];
    }
    host.Step();
    CHECK(DistanceOf(w, host.tensors[0].w.Values()) < 1e-9);
  }
  const Array inverse = host.Read("w/4/inverse.1");
  for (size_t i = 0; i < inverse.size(); ++i) {
    CHECK(inverse.Get(i) == doctest::Approx(pieces[4].reference.inverse[1][i]).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace shampoo_test
