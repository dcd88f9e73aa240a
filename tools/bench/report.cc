// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.h"

#include <shampoo/shampoo.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tools/bench/limits.h"

namespace bench {
namespace {

void PrintPhase(const PhaseLimit& phase) {
  if (phase.seconds <= 0) {
    std::printf("    %-16s nothing to do, or too short for the clock\n", phase.name);
    return;
  }
  const double rate = (phase.bound_by_flops ? phase.work.flops : phase.work.bytes) / phase.seconds / 1e9;
  std::printf("    %-16s %9.3f ms of thread time %8.1f %s", phase.name, phase.seconds * 1e3, rate,
              phase.bound_by_flops ? "Gflop/s" : "GB/s   ");
  std::printf("  %5.1f %% of the %s\n", phase.limit / phase.seconds * 100,
              phase.bound_by_flops ? "FMA peak" : "bandwidth");
}

}  // namespace

void PrintLibrary(bool with_phases) {
  std::printf("library    %s\n", shampoo_build_info());
  std::printf("processor  %s, measured with %s instructions\n", CpuName().c_str(), InstructionSetName().c_str());
  for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr) std::printf("attention  %s=%s is set, which may make BLAS slower: unset it\n", name, value);
  }
  if (with_phases && !CanTrackTimes()) std::puts("phases     not measured: this library has no key track_times");
}

void PrintMachines(const char* when, const Machines& machines) {
  for (const auto& [threads, machine] : machines) {
    std::printf("%-10s %d thread%s %.1f Gflop/s of multiply-adds, %.1f GB/s from memory, %.1f GB/s from the cache\n",
                when, threads, threads == 1 ? ": " : "s:", machine.peak / 1e9, machine.memory_rate / 1e9,
                machine.cache_rate / 1e9);
  }
}

void PrintHead(const std::vector<int64_t>& frequencies) {
  std::printf("%-15s %5s %-8s %-5s %3s %11s %6s %16s %16s", "case", "block", "grafting", "state", "thr", "parameters",
              "blocks", "ordinary ms", "with roots ms");
  for (const int64_t frequency : frequencies) std::printf(" %11s", ("mean@" + std::to_string(frequency)).c_str());
  std::printf(" %8s %6s %7s\n", "Gflop/s", "% peak", "% limit");
}

void PrintRow(const Row& row, const Machine& machine, const std::vector<int64_t>& frequencies) {
  const auto time = [](const Shortest& shortest) {
    char text[48];
    std::snprintf(text, sizeof text, "%.3f (%d)", shortest.seconds * 1e3, shortest.runs);
    return std::string(text);
  };
  std::printf("%-15s %5" PRId64 " %-8s %-5s %3d %11" PRId64 " %6" PRId64 " %16s %16s", row.model->name.c_str(),
              row.settings.block, row.settings.grafting.c_str(), row.settings.state_dtype.c_str(), row.settings.threads,
              row.work.parameters, row.work.blocks, time(row.ordinary).c_str(), time(row.with_roots).c_str());
  for (const int64_t frequency : frequencies) std::printf(" %11.3f", row.Mean(frequency) * 1e3);
  std::printf(" %8.1f %6.1f %7.1f\n", row.work.ProductFlops() / row.ordinary.seconds / 1e9,
              FractionOfPeak(row, machine) * 100, StepLimit(row, machine) / row.ordinary.seconds * 100);
  if (row.root_retried > 0) std::printf("    %.0f roots needed the recovery ladder\n", row.root_retried);
  if (row.has_phases) {
    for (const PhaseLimit& phase : PhaseLimits(row, machine)) PrintPhase(phase);
  }
  std::fflush(stdout);
}

}  // namespace bench
