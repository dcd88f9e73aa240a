// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/options.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tools/bench/arguments.h"
#include "tools/bench/fail.h"

namespace bench {
namespace {

constexpr char kUsage[] =
    R"(shampoo_bench [options]: measures the times of steps. On the CPU and without --period, also compares the times
with limits of the machine that are measured in the same run. An ordinary step computes no inverse roots.

what
  --case NAME,...|all|list   models. all (default): a fixed selection of cases and settings; list: prints all cases
  --shapes 4096x1024,1024    parameters of these shapes, instead of a case
  --shapes-file FILE         parameters from a file with lines "name d0 d1 ...", instead of a case
  --period N                 measures N consecutive steps with precondition_frequency N, instead of single steps, and
                             prints the mean time per step and the longest step. The keys root_spread and root_async
                             can be set only with --period
  --grid                     prints a table of step time and memory by block size and precondition_frequency
  --roots                    measures inverse square roots and matrix products of several sizes, on one thread
  --orthogonalize            measures Newton-Schulz iterations of several shapes, on one thread
  --simulate                 predicts the efficiency of many threads, for gpt2 and resnet50 or for the cases of --case
how (each combination of the listed values is a row; the values of --frequency are columns)
  --device cpu|cuda          default: cpu. On cuda, "ordinary ms" and "with roots" are times of the device, and
                             "its call" is the time that the host needs for the same step
  --plugin FILE              path of libshampoo_cuda.so; default: in the folder of libshampoo.so
  --threads 1,2              numbers of threads; default: 1,2, or 1 on cuda
  --block 64,...             max_preconditioner_dim; default: the block sizes of the case
  --frequency 1,10,50        values of precondition_frequency, for the mean times per step; default: 1,10,50
  --grafting NAME,...        none, sgd, adagrad, rmsprop, adam; default: adam
  --state-dtype NAME,...     dtype of all states: f32, bf16, f16, f64; default: f32
  --set KEY=VALUE            a key of the library that the program does not set; may be repeated. All remaining keys
                             have their defaults; preset=shampoo_2024 selects those of the reference implementation
  --min-runs N               least number of runs; the shortest run (with --roots: the median) is reported; default: 10.
                             Steps that take more than 2 s may have fewer runs. With --period, the value of
                             --min-runs is the largest number of periods that are measured
output
  --json FILE                writes all results as JSON, of which docs/measure/bench_table.py makes tables. Has no
                             effect with --roots and --orthogonalize
  --chart FILE               with --grid: writes a plot as JSON, which tools/bench/draw_chart.py draws

Unset the environment variables OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE, because they change the results.
)";

// Options that choose what is measured, and have no value.
const std::map<std::string, Mode> kModes = {{"--grid", Mode::kGrid},
                                            {"--simulate", Mode::kSimulate},
                                            {"--roots", Mode::kInverseRoots},
                                            {"--orthogonalize", Mode::kOrthogonalization}};

void CheckKey(const std::pair<std::string, std::string>& pair, Mode mode) {
  // These keys vary between rows, or the measurement sets them.
  for (const char* const own : {"precondition_frequency", "start_preconditioning_step", "max_preconditioner_dim",
                                "grafting", "threads", "track_times", "refresh_growth"}) {
    if (pair.first == own)
      Fail("--set " + pair.first +
           ": the program sets this key; remove this --set, or use an option that --help lists");
  }
  for (const char* const needs_period : {"root_spread", "root_async"}) {
    if (pair.first == needs_period && mode != Mode::kPeriod) {
      Fail("--set " + pair.first + ": expected --period N, because single steps do not show the effect of this key");
    }
  }
}

void CheckTogether(const Options& options) {
  const bool shapes = !options.shapes.empty() || !options.shapes_file.empty();
  if (shapes && !options.cases.empty()) Fail("--case cannot be combined with --shapes or --shapes-file");
  if (!options.shapes.empty() && !options.shapes_file.empty()) Fail("--shapes cannot be combined with --shapes-file");
  if (options.mode == Mode::kGrid && !shapes && options.cases.size() != 1) {
    Fail("--grid needs --shapes, --shapes-file or one --case");
  }
  const bool is_fixed = options.mode == Mode::kInverseRoots || options.mode == Mode::kOrthogonalization;
  if (is_fixed && (shapes || !options.cases.empty())) {
    Fail("--roots and --orthogonalize measure fixed shapes; remove --case, --shapes and --shapes-file");
  }
  if (options.mode == Mode::kSimulate && shapes)
    Fail("--simulate cannot be combined with --shapes or --shapes-file; use --case");
  if (options.device != "cpu" && options.mode != Mode::kRows && options.mode != Mode::kPeriod) {
    Fail("--device " + options.device +
         " cannot be combined with --grid, --simulate, --roots, --orthogonalize or --case list; use --device cpu");
  }
  for (const auto& key : options.keys) CheckKey(key, options.mode);
  if (!options.chart.empty() && options.mode != Mode::kGrid) Fail("--chart needs --grid");
  if (options.cases.size() == 1 && options.cases[0] == "all" &&
      !(options.blocks.empty() && options.graftings.empty() && options.state_dtypes.empty())) {
    Fail(
        "--block, --grafting and --state-dtype cannot be combined with --case all (the default), whose rows are fixed; "
        "name another case with --case");
  }
}

}  // namespace

Options ReadOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    const auto mode = kModes.find(name);
    if (mode != kModes.end()) {
      options.mode = mode->second;
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    if (name == "--case") {
      options.cases = SplitList(value, name);
    } else if (name == "--shapes") {
      options.shapes = value;
    } else if (name == "--shapes-file") {
      options.shapes_file = value;
    } else if (name == "--threads") {
      options.threads = SplitInts<int>(value, name);
    } else if (name == "--block") {
      options.blocks = SplitInts<int64_t>(value, name);
    } else if (name == "--frequency") {
      options.frequencies = SplitInts<int64_t>(value, name);
    } else if (name == "--grafting") {
      options.graftings = SplitList(value, name);
    } else if (name == "--state-dtype") {
      options.state_dtypes = SplitList(value, name);
    } else if (name == "--set") {
      options.keys.push_back(SplitPair(value));
    } else if (name == "--period") {
      options.mode = Mode::kPeriod;
      options.period = SplitInts<int64_t>(value, name)[0];
    } else if (name == "--device") {
      options.device = value;
    } else if (name == "--plugin") {
      options.plugin = value;
    } else if (name == "--min-runs") {
      options.min_runs = SplitInts<int>(value, name)[0];
    } else if (name == "--json") {
      options.json = value;
    } else if (name == "--chart") {
      options.chart = value;
    } else {
      Fail("unknown option " + name + "; --help lists all options");
    }
  }
  const bool nothing = options.cases.empty() && options.shapes.empty() && options.shapes_file.empty();
  if (nothing && (options.mode == Mode::kRows || options.mode == Mode::kPeriod)) options.cases = {"all"};
  if (options.threads.empty()) options.threads = options.device == "cpu" ? std::vector<int>{1, 2} : std::vector<int>{1};
  if (options.cases == std::vector<std::string>{"list"}) options.mode = Mode::kList;
  CheckTogether(options);
  return options;
}

}  // namespace bench
