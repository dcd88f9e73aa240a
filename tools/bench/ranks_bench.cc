// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Measures ordinary steps (steps that compute no inverse roots) of a model whose blocks are divided among ranks, and
// the share of communication in the time of a step. Each rank is one thread of this process. An all-gather is a copy in
// memory. Therefore the results show the balance of the work and the cost of waiting, but not the cost of a network.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/distributed/job.h"
#include "tools/bench/arguments.h"
#include "tools/bench/cases.h"
#include "tools/bench/fail.h"

namespace bench {
namespace {

constexpr int64_t kFrequency = 1000000;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The callbacks of a rank's communicator, and the seconds that the rank has spent in all-gathers.
struct TimedOps {
  shampoo_comm_ops inner;
  double seconds = 0;
};

shampoo_comm_ops Timed(TimedOps* timed) {
  shampoo_comm_ops ops = timed->inner;
  ops.user = timed;
  ops.all_gather = [](void* user, const void* send, void* recv, size_t bytes, void* stream) {
    auto* const own = static_cast<TimedOps*>(user);
    const auto start = Clock::now();
    const int32_t result = own->inner.all_gather(own->inner.user, send, recv, bytes, stream);
    own->seconds += SecondsSince(start);
    return result;
  };
  ops.async_error = nullptr;
  ops.release = nullptr;
  return ops;
}

struct Options {
  std::string name = "transformer";
  std::string block = "512";
  std::vector<int> ranks = {1, 2};
  int runs = 10;
};

Options ReadOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--help" || i + 1 == argc) {
      std::puts("shampoo_ranks_bench [--case NAME] [--block N] [--ranks 1,2] [--runs N]");
      std::exit(option == "--help" ? 0 : 2);
    }
    const std::string value = argv[i + 1];
    if (option == "--case") {
      options.name = value;
    } else if (option == "--block") {
      options.block = value;
    } else if (option == "--runs") {
      options.runs = SplitInts<int>(value, option)[0];
    } else if (option == "--ranks") {
      options.ranks = SplitInts<int>(value, option);
    } else {
      Fail("unknown option " + option + "; --help lists all options");
    }
  }
  return options;
}

// Sets the step counter so that the next steps precondition, and the next refresh of roots is far away.
void SkipToOrdinarySteps(const shampoo_test::Rank& rank) {
  const int64_t step = 2 * kFrequency + 1;
  int64_t count = 0;
  Try(shampoo_state_count(rank.optimizer, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Try(shampoo_state_describe(rank.optimizer, i, &entry));
    if (std::string(entry.key) != "group.0/step") continue;
    Try(shampoo_state_write(rank.optimizer, i, 0, 1, &step, sizeof step, SHAMPOO_CPU, nullptr));
  }
}

// The results of Measure(). A run is one step on all ranks.
struct Measured {
  double step = 0;           // seconds of the slowest rank in the shortest run
  double communication = 0;  // seconds in all-gathers in the shortest run, including waiting; the mean of all ranks
};

// *state receives the bytes of state of the rank that has the most. *sent receives the bytes that each rank sends in a
// step.
Measured Measure(const shampoo_test::RankSpec& model, int world, int runs, int64_t* state, int64_t* sent) {
  shampoo_test::ThreadComm comm(world);
  std::vector<TimedOps> timed(static_cast<size_t>(world));
  std::vector<shampoo_comm_ops> ops(timed.size());
  std::vector<std::unique_ptr<shampoo_test::Rank>> ranks(timed.size());
  for (size_t rank = 0; rank < timed.size(); ++rank) {
    timed[rank].inner = comm.OpsOf(static_cast<int>(rank));
    ops[rank] = Timed(&timed[rank]);
  }
  shampoo_test::OnEveryRank(world, [&](int rank) {
    shampoo_test::RankSpec spec = model;
    spec.replica_rank = rank;
    spec.replica_world = world;
    spec.replica_ops = &ops[static_cast<size_t>(rank)];
    ranks[static_cast<size_t>(rank)] = std::make_unique<shampoo_test::Rank>(spec);
    shampoo_test::Rank& own = *ranks[static_cast<size_t>(rank)];
    if (own.status != SHAMPOO_OK) Fail(own.error);
    SkipToOrdinarySteps(own);
    shampoo_test::Fill(1, &own.g);
  });
  Measured best;
  for (int run = 0; run <= runs; ++run) {
    for (TimedOps& of_rank : timed) of_rank.seconds = 0;
    std::vector<double> seconds(timed.size());
    shampoo_test::OnEveryRank(world, [&](int rank) {
      const auto start = Clock::now();
      ranks[static_cast<size_t>(rank)]->Step();
      seconds[static_cast<size_t>(rank)] = SecondsSince(start);
    });
    for (const auto& rank : ranks) {
      if (rank->status != SHAMPOO_OK) Fail(rank->error);
    }
    const double step = *std::max_element(seconds.begin(), seconds.end());
    if (run == 0 || (run > 1 && step >= best.step)) continue;  // the first run is a warm-up
    best = {step, 0};
    for (const TimedOps& of_rank : timed) best.communication += of_rank.seconds / world;
  }
  *state = *sent = 0;
  for (int rank = 0; rank < world; ++rank) *state = std::max(*state, ranks[0]->PlanBytes("state", rank));
  *sent = ranks[0]->PlanBytes("comm", 0);
  return best;
}

void Run(const Options& options) {
  const Case& shapes = FindCase(options.name);
  shampoo_test::RankSpec model;
  model.keys = {{"lr", "0.001"},
                {"grafting", "adam"},
                {"max_preconditioner_dim", options.block},
                {"precondition_frequency", std::to_string(kFrequency)},
                {"refresh_growth", "0"}};
  for (const Tensor& tensor : shapes.tensors) model.params.push_back({tensor.name, tensor.shape});
  std::printf("%s in blocks of %s, ordinary steps, one thread for each rank\n", shapes.name.c_str(),
              options.block.c_str());
  std::printf("%5s %12s %10s %16s %18s %14s\n", "ranks", "step, ms", "speedup", "communication", "state, MB a rank",
              "sent, MB");
  double of_one = 0;
  for (const int world : options.ranks) {
    int64_t state = 0;
    int64_t sent = 0;
    const Measured measured = Measure(model, world, options.runs, &state, &sent);
    if (of_one == 0) of_one = measured.step;
    std::printf("%5d %12.2f %10.2f %14.1f %% %18.1f %14.1f\n", world, 1e3 * measured.step, of_one / measured.step,
                100 * measured.communication / measured.step, static_cast<double>(state) / 1e6,
                static_cast<double>(sent) / 1e6);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Run(bench::ReadOptions(argc, argv));
  return 0;
}
