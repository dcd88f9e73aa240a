// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/cuda/tools/stage.h"

namespace shampoo_test {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline const char* const kCounters[] = {"steps",         "step.0",      "skipped_steps", "nonfinite_blocks",
                                        "root_computed", "root_scalar", "root_eigen",    "root_retried",
                                        "root_reused"};

// Two optimizers with the same specification: one on the device, and one on the CPU.
struct Pair {
  explicit Pair(const ModelSpec& spec, cudaStream_t stream = nullptr) : device(spec, stream), host(OnCpu(spec)) {}
  static ModelSpec OnCpu(ModelSpec spec) {
    spec.device_type = SHAMPOO_CPU;
    spec.device_id = 0;
    return spec;
  }
  template <typename Work>
  void Each(const Work& work) {
    work(device);
    work(host);
  }
  void StepBoth(uint64_t seed) {
    Each([&](Model& model) { model.Step(seed); });
  }
  // Lists the parameters, outputs and states whose Distance() between the two optimizers is `tolerance` or more.
  // Returns "" if there are none.
  std::string DifferingValues(double tolerance) const {
    std::string differing;
    const auto compare = [&](const std::string& name, const std::vector<double>& a, const std::vector<double>& b) {
      const double distance = Distance(a, b);
      if (!(distance < tolerance)) differing += name + " by " + std::to_string(distance) + "; ";
    };
    for (size_t p = 0; p < device.params(); ++p) {
      const std::string name = "p" + std::to_string(p);
      compare(name, device.ParamValues(p), host.ParamValues(p));
      compare(name + ".out", device.OutValues(p), host.OutValues(p));
    }
    for (const std::string& key : host.Keys()) compare(key, device.State(key), host.State(key));
    return differing;
  }
  // Checks that both optimizers reject the next step with the same error, and that the optimizer on the device changes
  // nothing.
  void CheckBothReject(shampoo_status status) {
    const std::vector<char> before = BitsOf(device);
    CHECK(host.TryStep() == status);
    const std::string expected = shampoo_last_error();
    CHECK(device.TryStep() == status);
    CHECK(std::string(shampoo_last_error()) == expected);
    CHECK(BitsOf(device) == before);
  }
  void Train(uint64_t first, uint64_t last) {
    for (uint64_t t = first; t <= last; ++t) StepBoth(t);
  }
  // Returns the counters of kCounters that differ between the optimizers; "" if there are none. The caller must have
  // waited for the device with shampoo_optimizer_status().
  std::string DifferingCounters() const {
    std::string differing;
    for (const char* counter : kCounters) {
      const double on_device = device.Stat(counter);
      const double on_host = host.Stat(counter);
      if (on_device == on_host) continue;
      differing +=
          std::string(counter) + " " + std::to_string(on_device) + " instead of " + std::to_string(on_host) + "; ";
    }
    return differing;
  }

  Model device;
  Model host;
};

}  // namespace shampoo_test
