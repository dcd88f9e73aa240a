// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/simulate.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>

#include "tools/bench/runner.h"
#include "tools/bench/schedule_model.h"

namespace bench {
namespace {

constexpr int kThreads[] = {2, 8, 32, 96};
// A session measures several copies of a small block, so that the fixed overhead of a step is a small part of the time.
// If there are several copies, their factor matrices together have at most kElementsPerSession elements.
constexpr int64_t kElementsPerSession = 1 << 20;
constexpr int64_t kMaxCopies = 64;

BlockTask TimeAlone(const Dims& shape, Settings settings, int min_runs) {
  int64_t squares = 0;
  for (const int64_t d : shape) squares += d * d;
  const int64_t copies = std::clamp<int64_t>(kElementsPerSession / squares, 1, kMaxCopies);
  Case alone{ShapeName(shape), "", {}, {}};
  for (int64_t i = 0; i < copies; ++i) alone.tensors.push_back({"block." + std::to_string(i), shape});
  settings.threads = 1;
  settings.block = *std::max_element(shape.begin(), shape.end());
  settings.keys.emplace_back("use_merge_dims", "false");  // `shape` is already the shape of a block
  Session session(alone, settings);
  const double with_roots = TimeSteps(&session, true, min_runs).seconds;
  const double ordinary = TimeSteps(&session, false, min_runs).seconds;
  const auto each = static_cast<double>(copies);
  return {shape, ordinary / each, std::max(with_roots - ordinary, 0.0) / each};
}

double EfficiencyOf(const std::vector<BlockTask>& blocks, int threads) {
  return TotalWork(blocks) / (threads * Makespan(blocks, threads));
}

}  // namespace

Simulation Simulate(const Case& model, const Settings& settings, int min_runs) {
  Simulation simulation;
  simulation.model = &model;
  simulation.block = settings.block;
  std::map<Dims, BlockTask> task_of;
  std::vector<BlockTask> with_roots;
  for (const Dims& shape : BlockShapes(model, settings)) {
    auto found = task_of.find(shape);
    if (found == task_of.end()) found = task_of.emplace(shape, TimeAlone(shape, settings, min_runs)).first;
    with_roots.push_back(found->second);
  }
  std::vector<BlockTask> ordinary = with_roots;
  for (BlockTask& task : ordinary) task.roots = 0;
  simulation.blocks = static_cast<int64_t>(with_roots.size());
  simulation.distinct_shapes = static_cast<int64_t>(task_of.size());
  simulation.ordinary_work = TotalWork(ordinary);
  simulation.with_roots_work = TotalWork(with_roots);
  for (const int threads : kThreads) {
    simulation.efficiency.push_back({threads, EfficiencyOf(ordinary, threads), EfficiencyOf(with_roots, threads)});
  }
  return simulation;
}

std::vector<Simulation> RunSimulations(const Options& options) {
  std::vector<std::string> names = options.cases;
  if (names.empty()) names = {"gpt2", "resnet50"};
  std::vector<int64_t> blocks = options.blocks;
  if (blocks.empty()) blocks = {1024, 512};
  std::printf(
      "efficiency = work / (threads * time of the step); work is the time of the step on one thread.\n"
      "Times on several threads are simulated from times on one thread.\n");
  std::printf("%-15s %5s %7s %7s %12s %12s", "case", "block", "blocks", "shapes", "ordinary ms", "roots ms");
  for (const int threads : kThreads) std::printf(" %14s", (std::to_string(threads) + " threads").c_str());
  std::puts("   (the first efficiency is of an ordinary step, the second of a step with roots)");
  std::vector<Simulation> all;
  for (const std::string& name : names) {
    for (const int64_t block : blocks) {
      std::fprintf(stderr, "simulating %s in blocks of %" PRId64 "\n", name.c_str(), block);
      Settings settings;
      settings.block = block;
      settings.keys = options.keys;
      if (!options.graftings.empty()) settings.grafting = options.graftings[0];
      if (!options.state_dtypes.empty()) settings.state_dtype = options.state_dtypes[0];
      const Simulation simulation = Simulate(FindCase(name), settings, options.min_runs);
      std::printf("%-15s %5" PRId64 " %7" PRId64 " %7" PRId64 " %12.1f %12.1f", name.c_str(), block, simulation.blocks,
                  simulation.distinct_shapes, simulation.ordinary_work * 1e3,
                  (simulation.with_roots_work - simulation.ordinary_work) * 1e3);
      for (const Efficiency& point : simulation.efficiency)
        std::printf("   %5.3f / %.3f", point.ordinary, point.with_roots);
      std::puts("");
      std::fflush(stdout);
      all.push_back(simulation);
    }
  }
  return all;
}

}  // namespace bench
