// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/many_params.h"

#include <shampoo/shampoo.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "tools/bench/fail.h"
#include "tools/bench/machine.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSteps = 40;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int64_t SizeOfParam(int64_t i) { return 1 + i % 8; }

// Times are in seconds.
struct Times {
  double plan = 0;
  double create = 0;
  double step = 0;   // time of the shortest step
  double bytes = 0;  // bytes of states, parameters and gradients that a step must read or write
};

shampoo_plan* PlanOfMany(int64_t count, const std::vector<std::pair<std::string, std::string>>& keys) {
  shampoo_config* config = nullptr;
  Try(shampoo_config_create(&config));
  for (const auto& [key, value] : keys) Try(shampoo_config_set_str(config, key.c_str(), value.c_str()));
  shampoo_plan* plan = nullptr;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = 1;
  Try(shampoo_plan_create(&plan, config, &plan_desc));
  shampoo_config_destroy(config);
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
    param.name = name.c_str();
    param.ndim = 1;
    param.shape[0] = SizeOfParam(i);
    Try(shampoo_plan_add_param(plan, &param, nullptr));
  }
  Try(shampoo_plan_finish(plan));
  return plan;
}

Times Measure(int64_t count, const std::vector<std::pair<std::string, std::string>>& keys) {
  Times times;
  auto start = Clock::now();
  shampoo_plan* const plan = PlanOfMany(count, keys);
  times.plan = SecondsSince(start);

  start = Clock::now();
  shampoo_optimizer* optimizer = nullptr;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  Try(shampoo_optimizer_create(&optimizer, plan, &desc));
  times.create = SecondsSince(start);

  int64_t elements = 0;
  for (int64_t i = 0; i < count; ++i) elements += SizeOfParam(i);
  std::vector<float> params(static_cast<size_t>(elements), 0.5f);
  std::vector<float> grads(static_cast<size_t>(elements), 0.01f);
  std::vector<shampoo_buffers> buffers(static_cast<size_t>(count), SHAMPOO_BUFFERS_INIT);
  size_t first = 0;
  for (int64_t i = 0; i < count; ++i) {
    shampoo_buffers& own = buffers[static_cast<size_t>(i)];
    own.param = own.out = &params[first];
    own.grad = &grads[first];
    first += static_cast<size_t>(SizeOfParam(i));
  }
  Try(shampoo_optimizer_bind(optimizer, 0, static_cast<int32_t>(count), buffers.data()));

  times.step = INFINITY;
  for (int step = 0; step < kSteps; ++step) {
    start = Clock::now();
    Try(shampoo_optimizer_step(optimizer, nullptr));
    times.step = std::min(times.step, SecondsSince(start));
  }
  int64_t state = 0;
  Try(shampoo_plan_bytes(plan, -1, "state", &state));
  // A step reads and writes states and parameters, and reads gradients.
  times.bytes = 2 * static_cast<double>(state) + 12 * static_cast<double>(elements);
  shampoo_optimizer_destroy(optimizer);
  shampoo_plan_destroy(plan);
  return times;
}

}  // namespace

void MeasureManyParams(const std::vector<int64_t>& counts,
                       const std::vector<std::pair<std::string, std::string>>& keys) {
  const Machine machine = MeasureMachine(1);
  std::printf("parameters of 1 to 8 elements, one thread; %.1f GB/s from memory\n", machine.memory_rate / 1e9);
  std::printf("%10s %12s %12s %12s %14s %14s\n", "parameters", "plan, ms", "create, ms", "step, ms", "ns/parameter",
              "transfer, ms");
  for (const int64_t count : counts) {
    const Times times = Measure(count, keys);
    std::printf("%10" PRId64 " %12.2f %12.2f %12.3f %14.1f %14.3f\n", count, times.plan * 1e3, times.create * 1e3,
                times.step * 1e3, times.step / static_cast<double>(count) * 1e9,
                times.bytes / machine.memory_rate * 1e3);
    std::fflush(stdout);
  }
}

}  // namespace bench
