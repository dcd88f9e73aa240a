// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Compares the rates of shampoo_save and shampoo_load, on one rank, with the rates of dd on the same disk. Each run
// measures the library and dd. In every second run, the library runs before dd. dd writes as many bytes as the
// checkpoint has, with fsync, and reads the files of the checkpoint. Before each write, the file system is synced.
// Before each read, the files to read are dropped from the page cache.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tools/bench/arguments.h"
#include "tools/bench/checkpoint_runs.h"
#include "tools/bench/fail.h"
#include "tools/bench/json_file.h"

namespace bench {
namespace {

struct Options {
  std::string directory = ".";
  std::string json;
  CheckpointSize size;
  int runs = 7;
};

Options ReadOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--help" || i + 1 == argc) {
      std::puts(
          "shampoo_checkpoint_bench [--dir DIRECTORY] [--mib N] [--dim N] [--runs N] [--json FILE]\n"
          "A number in parentheses is a default.\n"
          "  --dir   directory on the disk to measure; default: the current one. Created files are removed\n"
          "  --mib   approximate size of the state in MiB (1024)\n"
          "  --dim   rows and columns of each matrix (1024). Half of the matrices are one block, the others are four "
          "blocks\n"
          "  --runs  number of runs (7). The medians of all runs are printed, too");
      std::exit(option == "--help" ? 0 : 2);
    }
    const std::string value = argv[i + 1];
    if (option == "--dir") {
      options.directory = value;
    } else if (option == "--json") {
      options.json = value;
    } else if (option == "--mib") {
      options.size.mib = SplitInts<int64_t>(value, option)[0];
    } else if (option == "--dim") {
      options.size.dim = SplitInts<int64_t>(value, option)[0];
    } else if (option == "--runs") {
      options.runs = SplitInts<int>(value, option)[0];
    } else {
      Fail("unknown option " + option + "; --help lists all options");
    }
  }
  return options;
}

double Median(const std::vector<CheckpointRun>& runs, double CheckpointRun::*which) {
  std::vector<double> rates;
  for (const CheckpointRun& run : runs) rates.push_back(run.*which);
  std::sort(rates.begin(), rates.end());
  return (rates[(rates.size() - 1) / 2] + rates[rates.size() / 2]) / 2;
}

void Print(const char* name, const CheckpointRun& run) {
  std::printf("%8s %10.0f %10.0f %7.0f %% %10.0f %10.0f %7.0f %%\n", name, run.dd_write / 1e6, run.save / 1e6,
              100 * run.save / run.dd_write, run.dd_read / 1e6, run.load / 1e6, 100 * run.load / run.dd_read);
  std::fflush(stdout);
}

Json JsonOf(const CheckpointRun& run) {
  return {
      {"dd_write_mb_s", run.dd_write / 1e6}, {"save_mb_s", run.save / 1e6}, {"write_ratio", run.save / run.dd_write},
      {"dd_read_mb_s", run.dd_read / 1e6},   {"load_mb_s", run.load / 1e6}, {"read_ratio", run.load / run.dd_read}};
}

void RunAll(const Options& options) {
  CheckpointRuns bench(options.size, options.directory);
  std::printf("The checkpoint has %lld MB. All rates are in MB/s.\n", static_cast<long long>(bench.bytes() / 1000000));
  std::printf("%8s %10s %10s %9s %10s %10s %9s\n", "run", "dd write", "save", "of dd", "dd read", "load", "of dd");
  std::vector<CheckpointRun> runs;
  Json result = {{"bytes", bench.bytes()}, {"runs", Json::array()}};
  for (int i = 0; i < options.runs; ++i) {
    runs.push_back(bench.TimeOnce(i % 2 == 0));
    Print(std::to_string(i + 1).c_str(), runs.back());
    result["runs"].push_back(JsonOf(runs.back()));
  }
  const CheckpointRun median = {Median(runs, &CheckpointRun::dd_write), Median(runs, &CheckpointRun::save),
                                Median(runs, &CheckpointRun::dd_read), Median(runs, &CheckpointRun::load)};
  Print("median", median);
  result["median"] = JsonOf(median);
  if (!options.json.empty()) WriteJsonFile(result, options.json);
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::RunAll(bench::ReadOptions(argc, argv));
  return 0;
}
