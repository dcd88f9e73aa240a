// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Measures steps of small models on one thread, and steps of a plain AdamW (adamw.h). Compares the mean time of a step,
// over precondition_frequency steps, with a bound. The bound is the sum of three terms:
//   - 3 times the time of a step of AdamW;
//   - 20 microseconds;
//   - 1.5 times the time of the flops of the step. This time assumes the flop rate of a large model with blocks of the
//     same size. The program measures this rate in the same run.
// --many measures the times to make a plan, to create an optimizer and to make a step with very many parameters.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tools/bench/adamw.h"
#include "tools/bench/arguments.h"
#include "tools/bench/fail.h"
#include "tools/bench/machine.h"
#include "tools/bench/many_params.h"
#include "tools/bench/runner.h"

namespace bench {
namespace {

constexpr double kTimesAdamw = 3;
constexpr double kOverhead = 20e-6;
constexpr double kTimesFlops = 1.5;

constexpr char kUsage[] =
    R"(shampoo_small_bench [options]: measures steps of small models on one thread, and compares them with AdamW
  --shapes 64x10,100    measures only a model with parameters of these shapes, instead of the predefined models
  --set KEY=VALUE       any key of the library; may be repeated. In this program, the default of use_merge_dims is false
  --frequency N         precondition_frequency; default: 25
  --min-runs N          least number of runs of each kind of step; the shortest run is reported; default: 50
  --many 10000,100000   measures the times to make a plan, to create an optimizer and to make a step, for each of these
                        numbers of tiny parameters. Nothing else is measured
)";

struct Options {
  std::string shapes;
  std::vector<std::pair<std::string, std::string>> keys;
  int64_t frequency = 25;
  int min_runs = 50;
  std::vector<int64_t> many;
};

Options ReadOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--help" || i + 1 == argc) {
      std::fputs(kUsage, stdout);
      std::exit(option == "--help" ? 0 : 2);
    }
    const std::string value = argv[i + 1];
    if (option == "--shapes") {
      options.shapes = value;
    } else if (option == "--set") {
      options.keys.push_back(SplitPair(value));
    } else if (option == "--frequency") {
      options.frequency = SplitInts<int64_t>(value, option)[0];
    } else if (option == "--min-runs") {
      options.min_runs = SplitInts<int>(value, option)[0];
    } else if (option == "--many") {
      options.many = SplitInts<int64_t>(value, option);
    } else {
      Fail("unknown option " + option + "; --help lists all options");
    }
  }
  return options;
}

std::vector<Case> Models(const Options& options) {
  if (!options.shapes.empty()) return {CaseOfShapes(options.shapes)};
  std::vector<Case> models = {CaseOfShapes("128x64,128,64x128,64,10x64,10")};
  models.back().name = "mlp 64-128-64-10";
  for (const char* const shape : {"64x10", "10x100", "1000x1", "1000"}) {
    models.push_back(CaseOfShapes(shape));
    models.back().name = shape;
  }
  return models;
}

// Measures the flops per second of ordinary steps (steps that compute no inverse roots) of a large model in blocks of
// d x d, as shampoo_bench does. For d below 64, blocks of 64 x 64 are measured.
class Rates {
 public:
  explicit Rates(double peak) : peak_(peak) {}

  double Of(int64_t d) {
    d = std::max<int64_t>(d, 64);
    const auto found = rates_.find(d);
    if (found != rates_.end()) return found->second;
    constexpr int64_t kElements = 6 << 20;
    Case large{"large", "", {}, {d}};
    for (int64_t i = 0; i < std::max<int64_t>(kElements / (d * d), 1); ++i) {
      large.tensors.push_back({"weight." + std::to_string(i), {d, d}});
    }
    Settings settings;
    settings.block = d;
    settings.keys = {{"use_merge_dims", "false"}};
    Session session(large, settings);
    constexpr int kRuns = 30;
    const double rate = session.work().ProductFlops() / TimeSteps(&session, false, kRuns).seconds;
    std::printf("blocks of %" PRId64 ": %.1f %% of the rate of multiply-adds\n", d, 100 * rate / peak_);
    return rates_[d] = rate;
  }

 private:
  double peak_;
  std::map<int64_t, double> rates_;
};

// Returns the mean seconds that the flops of a step take, if each block is computed at the rate in `rates` for the
// longest dim of the block.
double FlopSeconds(const Case& model, const Settings& settings, const StepWork& work, int64_t frequency, Rates* rates) {
  if (work.ProductFlops() == 0) return 0;
  double seconds = 0;
  for (const Dims& block : BlockShapes(model, settings)) {
    const auto elements = static_cast<double>(Elements(block));
    double flops = 0;
    for (const int64_t dim : block) {
      const auto d = static_cast<double>(dim);
      flops += 3 * d * elements + RootFlops(d, UsesSquareRoots(settings)) / static_cast<double>(frequency);
    }
    seconds += flops / rates->Of(*std::max_element(block.begin(), block.end()));
  }
  return seconds;
}

void MeasureModels(const Options& options) {
  Settings settings;
  settings.keys = {{"use_merge_dims", "false"}};
  settings.keys.insert(settings.keys.end(), options.keys.begin(), options.keys.end());
  const Machine machine = MeasureMachine(1);
  Rates rates(machine.peak);
  std::printf("one thread, roots every %" PRId64 " steps; %.1f Gflop/s of multiply-adds; times in microseconds\n",
              options.frequency, machine.peak / 1e9);
  std::printf("%-17s %9s %9s %11s %9s %9s %9s %7s %6s\n", "model", "AdamW", "ordinary", "with roots", "mean", "flops",
              "bound", "% bound", "holds");
  for (const Case& model : Models(options)) {
    const double adamw = TimeAdamw(model, 2000);
    Row row;
    StepWork work;
    {
      Session session(model, settings);
      work = session.work();
      row.with_roots = TimeSteps(&session, true, options.min_runs);
      row.ordinary = TimeSteps(&session, false, options.min_runs);
    }
    const double flops = FlopSeconds(model, settings, work, options.frequency, &rates);
    const double mean = row.Mean(options.frequency);
    const double bound = kTimesAdamw * adamw + kOverhead + kTimesFlops * flops;
    std::printf("%-17s %9.2f %9.2f %11.2f %9.2f %9.2f %9.2f %7.0f %6s\n", model.name.c_str(), adamw * 1e6,
                row.ordinary.seconds * 1e6, row.with_roots.seconds * 1e6, mean * 1e6, flops * 1e6, bound * 1e6,
                100 * mean / bound, mean <= bound ? "yes" : "NO");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  const bench::Options options = bench::ReadOptions(argc, argv);
  if (options.many.empty()) {
    bench::MeasureModels(options);
  } else {
    bench::MeasureManyParams(options.many, options.keys);
  }
  return 0;
}
