// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Measures the time that the gradient check needs to scan a 1024 x 1024 float32 gradient. Compares this time with the
// time of a step that refreshes no roots. The scan and the step run on one thread. The last lines of the output are the
// ratios.
#include <benchmark/benchmark.h>
#include <shampoo/shampoo.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/backend/cpu/magnitude.h"

namespace {

constexpr int64_t kSide = 1024;
constexpr int64_t kElements = kSide * kSide;
// Number of gradients that the benchmark scan_cold scans in turn. No cache holds all of them, so each scan reads from
// memory.
constexpr int64_t kColdGradients = 64;
// Roots are refreshed in step kFrequency and its multiples. The measured steps follow step kFrequency, and are so few
// that none of them refreshes roots.
constexpr int64_t kFrequency = int64_t{1} << 20;
constexpr double kAim = 2;  // the check should take at most this share of a step, in percent

std::vector<float> MakeGradients(int64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.01f);
  std::vector<float> gradients(static_cast<size_t>(count * kElements));
  const auto first_end = gradients.begin() + kElements;
  std::generate(gradients.begin(), first_end, [&] { return normal(random); });
  for (auto next = first_end; next != gradients.end(); next += kElements)
    std::copy_n(gradients.begin(), kElements, next);
  return gradients;
}

void BenchScan(benchmark::State& state, int64_t count) {
  const std::vector<float> gradients = MakeGradients(count);
  int64_t i = 0;
  for (auto _ : state) {
    const float* const gradient = gradients.data() + i++ % count * kElements;
    benchmark::DoNotOptimize(shampoo::LargestMagnitude(gradient, shampoo::Dtype::kF32, kElements));
  }
  state.SetBytesProcessed(state.iterations() * kElements * static_cast<int64_t>(sizeof(float)));
}

void Try(shampoo_status status) {
  if (status == SHAMPOO_OK) return;
  std::fprintf(stderr, "%s: %s\n", shampoo_status_name(status), shampoo_last_error());
  std::exit(1);
}

// Sets the step counter of the group.
void SetStep(shampoo_optimizer* optimizer, int64_t step) {
  int64_t count = 0;
  Try(shampoo_state_count(optimizer, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Try(shampoo_state_describe(optimizer, i, &entry));
    if (std::strcmp(entry.key, "group.0/step") != 0) continue;
    Try(shampoo_state_write(optimizer, i, 0, 1, &step, sizeof step, SHAMPOO_CPU, nullptr));
  }
}

shampoo_optimizer* MakeOptimizer() {
  shampoo_config* config = nullptr;
  shampoo_plan* plan = nullptr;
  shampoo_optimizer* optimizer = nullptr;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  Try(shampoo_config_create(&config));
  Try(shampoo_config_set_f64(config, "lr", 1e-3));
  Try(shampoo_config_set_str(config, "grafting", "adam"));
  Try(shampoo_config_set_i64(config, "precondition_frequency", kFrequency));
  Try(shampoo_config_set_f64(config, "refresh_growth", 0));
  plan_desc.threads = 1;
  Try(shampoo_plan_create(&plan, config, &plan_desc));
  param.name = "weight", param.ndim = 2, param.shape[0] = kSide, param.shape[1] = kSide;
  Try(shampoo_plan_add_param(plan, &param, nullptr));
  Try(shampoo_plan_finish(plan));
  Try(shampoo_optimizer_create(&optimizer, plan, &optimizer_desc));
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
  return optimizer;
}

void BenchStep(benchmark::State& state) {
  shampoo_optimizer* const optimizer = MakeOptimizer();
  std::vector<float> weight(kElements);
  const std::vector<float> gradient = MakeGradients(1);
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = buffers.out = weight.data();
  buffers.grad = gradient.data();
  Try(shampoo_optimizer_bind(optimizer, 0, 1, &buffers));
  SetStep(optimizer, kFrequency - 1);
  Try(shampoo_optimizer_step(optimizer, nullptr));  // step kFrequency, which computes the roots
  for (auto _ : state) Try(shampoo_optimizer_step(optimizer, nullptr));
  double roots = 0;
  Try(shampoo_optimizer_stat(optimizer, "root_computed", &roots));
  if (roots != 2) {
    const std::string text = std::to_string(static_cast<int64_t>(roots)) +
                             " inverse roots were computed: expected 2, both before the measured steps";
    state.SkipWithError(text.c_str());
  }
  shampoo_optimizer_destroy(optimizer);
}

// Keeps the shortest time of all repetitions of each benchmark, because other load on the machine can only add time.
class ShortestTimes : public benchmark::ConsoleReporter {
 public:
  ShortestTimes() : ConsoleReporter(OO_None) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const double time = run.real_accumulated_time / static_cast<double>(run.iterations);
      const auto kept = seconds_.emplace(run.run_name.function_name, time).first;
      kept->second = std::min(kept->second, time);
    }
    ConsoleReporter::ReportRuns(runs);
  }

  void PrintShare(const char* scan) const {
    const auto part = seconds_.find(scan);
    const auto whole = seconds_.find("step");
    if (part == seconds_.end() || whole == seconds_.end()) return;
    std::printf("%s: %.3f ms of a step of %.1f ms, %.2f %% (aim: at most %g %%)\n", scan, part->second * 1e3,
                whole->second * 1e3, part->second / whole->second * 100, kAim);
  }

 private:
  std::map<std::string, double> seconds_;
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::RegisterBenchmark("scan_warm", BenchScan, 1)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("scan_cold", BenchScan, kColdGradients)->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("step", BenchStep)->Unit(benchmark::kMillisecond);
  benchmark::AddCustomContext("build_info", shampoo_build_info());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  ShortestTimes reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.PrintShare("scan_warm");
  reporter.PrintShare("scan_cold");
  return 0;
}
