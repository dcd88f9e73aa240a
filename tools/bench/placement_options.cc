// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/placement_options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <type_traits>

#include "tools/bench/arguments.h"
#include "tools/bench/fail.h"

namespace bench {
namespace {

constexpr int kLargestWorld = 1 << 20;  // largest number of ranks that a plan can have

constexpr char kUsage[] =
    R"(shampoo_placement [options]: shows how a plan divides the blocks of a model among many ranks, and predicts
the time of a step. Nothing is measured; docs/scaling.md has the formulas.

model and ranks
  --model NAME,...        resnet50, vit-l, gpt2-xl, llama-7b, llama-70b, recommendation; default: all
  --shapes 4096x1024,...  parameters of these shapes, instead of a model
  --shapes-file FILE      parameters from a file with lines "name d0 d1 ...", instead of a model
  --world 8,16,...        numbers of ranks; default: the powers of two from 8 to 4096; with --shard-mode gather:
                          from 2 to 4096
  --balance bytes,cost    values of the key balance; default: both
  --shard-mode NAME       local or gather; default: local. With gather, each flattened parameter is divided into equal
                          chunks, one for each rank, and each block is gathered at its owner. This mode prints bytes
                          sent and memory, both for all-to-all and for all-gather. It ignores the rates, and does not
                          accept --shards and --group
  --shards N              each parameter is divided along its first dim into N shards, and world / N ranks hold each
                          shard (HSDP). Numbers of ranks that are not multiples of N are left out. Default: 1
  --group N               the ranks that hold the same parameters form groups of at most N. Each group computes the
                          updates of all blocks, and divides the blocks among its ranks. Default: one group
settings
  --block N               max_preconditioner_dim; default: 1024
  --frequency N           precondition_frequency; default: 50
  --steps N               the cost of roots is averaged over the first N steps of a run; default: 10000
  --preset NAME           the key preset; all other options take precedence over it. Default: shampoo_2024
  --grafting NAME         the key grafting; default: adam
  --set KEY=VALUE         any other key of the library; may be repeated
rates, of one rank
  --flops X               flop/s of the training step; default: 400e12
  --shampoo-flops X       flop/s of Shampoo's matrix products and elementwise work; default: 40e12
  --root-flops X          flop/s of inverse roots. The root of an n x n matrix counts as 10 n^3 flops. Default: 10e12
  --link X                bytes/s that a rank receives in an all-gather; default: 50e9
  --latency X             latency of an all-gather in seconds, for each doubling of the number of ranks;
                          default: 10e-6
  --tokens N              tokens per rank in a training step. The step takes 6 * parameters * tokens / flops seconds.
                          Default: 8192; for vit-l 64 * 197
  --step-seconds X        seconds of a training step without Shampoo. Default: computed from the tokens; for resnet50
                          0.1; for recommendation 0.01
output
  --json FILE             writes all results as JSON
  --chart FILE            writes a plot as JSON, which tools/bench/draw_chart.py draws. The x axis is the number of
                          ranks. The plot shows the overhead and the state of all models. With --shard-mode gather, it
                          shows bytes sent and memory of the first model instead
)";

int ReadInt(const std::string& text, const std::string& option) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 1 || value > kLargestWorld) {
    Fail(option + " is '" + text + "': expected an integer from 1 to " + std::to_string(kLargestWorld));
  }
  return static_cast<int>(value);
}

double ReadRate(const std::string& text, const std::string& option) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value <= 0) {
    Fail(option + " is '" + text + "': expected a number above 0, such as 50e9");
  }
  return value;
}

std::pair<std::string, std::string> ReadKey(const std::string& text) {
  std::pair<std::string, std::string> pair = SplitPair(text);
  for (const char* const own :
       {"preset", "max_preconditioner_dim", "precondition_frequency", "grafting", "balance", "shard_mode"}) {
    if (pair.first == own) Fail("--set " + pair.first + ": this key has its own option; see --help");
  }
  return pair;
}

// Returns true for "gather" and false for "local".
bool ReadShardMode(const std::string& text) {
  if (text != "local" && text != "gather") Fail("--shard-mode is '" + text + "': expected local or gather");
  return text == "gather";
}

}  // namespace

PlacementOptions ReadPlacementOptions(int argc, char** argv) {
  PlacementOptions options;
  ModelChoice choice;
  Rates& rates = options.rates;
  std::vector<int> worlds;
  std::string name;
  const auto into = [&name](auto* to) {
    return [&name, to](const std::string& value) {
      using To = std::remove_pointer_t<decltype(to)>;
      if constexpr (std::is_same_v<To, int>) *to = ReadInt(value, name);
      if constexpr (std::is_same_v<To, double>) *to = ReadRate(value, name);
      if constexpr (std::is_same_v<To, std::string>) *to = value;
      if constexpr (std::is_same_v<To, std::vector<std::string>>) *to = SplitList(value, name);
    };
  };
  const std::map<std::string, std::function<void(const std::string&)>> readers = {
      {"--model", into(&choice.names)},
      {"--shapes", into(&choice.shapes)},
      {"--shapes-file", into(&choice.shapes_file)},
      {"--world",
       [&](const std::string& value) {
         worlds.clear();
         for (const std::string& one : SplitList(value, name)) worlds.push_back(ReadInt(one, name));
       }},
      {"--balance", into(&options.balances)},
      {"--shard-mode", [&](const std::string& value) { options.gather = ReadShardMode(value); }},
      {"--shards", into(&options.shards)},
      {"--group", into(&options.group)},
      {"--block", into(&options.block)},
      {"--frequency", into(&options.frequency)},
      {"--steps", into(&options.steps)},
      {"--preset", into(&options.preset)},
      {"--grafting", into(&options.grafting)},
      {"--set", [&](const std::string& value) { options.keys.push_back(ReadKey(value)); }},
      {"--flops", into(&rates.train_flops)},
      {"--shampoo-flops", into(&rates.shampoo_flops)},
      {"--root-flops", into(&rates.root_flops)},
      {"--link", into(&rates.link_bytes)},
      {"--latency", into(&rates.latency)},
      {"--tokens", into(&choice.tokens)},
      {"--step-seconds", into(&choice.step_seconds)},
      {"--json", into(&options.json)},
      {"--chart", into(&options.chart)},
  };
  for (int i = 1; i < argc; ++i) {
    name = argv[i];
    if (name == "--help" || name == "-h") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    const auto reader = readers.find(name);
    if (reader == readers.end()) Fail("unknown option " + name + "; --help lists all options");
    if (i + 1 == argc) Fail(name + " needs a value");
    reader->second(argv[++i]);
  }
  options.models = ChooseModels(choice);
  if (options.gather && (options.shards != 1 || options.group != 0)) {
    Fail("--shard-mode gather: all ranks hold shards of one copy, so --shards and --group cannot be used");
  }
  if (worlds.empty()) {
    for (int world = options.gather ? 2 : 8; world <= 4096; world *= 2) worlds.push_back(world);
  }
  for (const int world : worlds) {
    if (world % options.shards == 0) options.worlds.push_back(world);
  }
  std::sort(options.worlds.begin(), options.worlds.end());
  if (options.worlds.empty())
    Fail("--shards is " + std::to_string(options.shards) +
         ": expected a divisor of at least one number of ranks (--world)");
  if (options.gather && options.worlds.front() < 2) Fail("--world is '1': --shard-mode gather needs 2 ranks or more");
  return options;
}

}  // namespace bench
