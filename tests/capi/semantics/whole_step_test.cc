// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "tests/capi/semantics/dense_reference.h"
#include "tests/capi/semantics/model.h"

namespace shampoo_test {
namespace {

std::string Text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

Keys KeysOf(const DenseReference& r) {
  return {{"lr", Text(r.lr)},
          {"beta1", Text(r.beta1)},
          {"beta2", Text(r.beta2)},
          {"epsilon", Text(r.epsilon)},
          {"momentum", Text(r.momentum)},
          {"use_nesterov", r.nesterov ? "true" : "false"},
          {"weight_decay", Text(r.weight_decay)},
          {"weight_decay_type", r.coupled ? "coupled" : "decoupled"},
          {"use_bias_correction", r.bias_correction ? "true" : "false"},
          {"use_merge_dims", "false"},
          {"precondition_frequency", std::to_string(r.frequency)},
          {"start_preconditioning_step", std::to_string(r.start)},
          {"inverse_root_override", r.root == 4 ? "0" : Text(r.root)},
          {"exponent_multiplier", Text(r.multiplier)},
          {"grafting", r.grafting},
          {"grafting_beta2", Text(r.graft_beta2)},
          {"grafting_epsilon", Text(r.graft_epsilon)}};
}

// Makes 12 steps of both from the same values and returns the largest difference of a parameter.
double LargestDifference(DenseReference reference, uint64_t seed) {
  std::mt19937_64 random(seed);
  Model<double> model(KeysOf(reference), {Param("w", {reference.m, reference.n})});
  Fill(random, &model.w[0]);
  std::vector<double> w = model.w[0];
  double largest = 0;
  for (int step = 0; step < 12; ++step) {
    Fill(random, &model.g[0]);
    reference.Step(model.g[0], &w);
    model.Step();
    for (size_t i = 0; i < w.size(); ++i) largest = std::max(largest, std::fabs(w[i] - model.w[0][i]));
  }
  return largest;
}

TEST_CASE("every combination of options agrees with the reference") {
  int combinations = 0;
  for (const char* grafting : {"none", "sgd", "adagrad", "rmsprop", "adam"}) {
    for (int bits = 0; bits < 64; ++bits) {
      DenseReference reference(5, 4);
      reference.grafting = grafting;
      const bool moment = std::string(grafting) == "rmsprop" || std::string(grafting) == "adam";
      reference.graft_beta2 = moment ? 0.95 : 1;
      reference.coupled = (bits & 1) != 0;
      reference.weight_decay = (bits & 1) != 0 || (bits & 2) != 0 ? 0.05 : 0;
      reference.momentum = (bits & 2) != 0 ? 0.8 : 0;
      reference.nesterov = (bits & 4) != 0;
      reference.bias_correction = (bits & 8) != 0;
      reference.beta1 = (bits & 16) != 0 ? 0.9 : 0;
      reference.beta2 = (bits & 32) != 0 ? 0.97 : 1;
      reference.frequency = 1 + bits % 3;
      reference.start = reference.frequency + bits % 5;
      reference.root = bits % 7 == 0 ? 2 : 4;
      reference.multiplier = bits % 5 == 0 ? 1.5 : 1;
      CAPTURE(grafting);
      CAPTURE(bits);
      CHECK(LargestDifference(reference, static_cast<uint64_t>(bits)) < 1e-9);
      ++combinations;
    }
  }
  CHECK(combinations == 320);
}

}  // namespace
}  // namespace shampoo_test
