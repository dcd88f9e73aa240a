// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that each save and each load needs at most 64 MiB of memory in addition to the state. The measure is the peak
// of the resident memory of this process. With --long, the model has more blocks.
//   shampoo_checkpoint_memory [--long]
#include <malloc.h>
#include <shampoo/shampoo.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/checkpoint/faults/files.h"
#include "tests/distributed/grid.h"

namespace shampoo_test {
namespace {

constexpr int64_t kMax = int64_t{64} << 20;
constexpr int64_t kMinState = int64_t{256} << 20;

void Require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

// Returns a value from /proc/self/status in bytes. key: the beginning of the line of the value.
int64_t Resident(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::atoll(line.c_str() + key.size()) * 1024;
  }
  return -1;
}

// Returns by how much the peak of resident memory during work() exceeds the resident memory before work().
template <typename Work>
int64_t PeakOf(Work&& work) {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";  // resets the peak to the current value
  const int64_t before = Resident("VmRSS:");
  Require(before > 0 && Resident("VmHWM:") < before + (1 << 20), "the peak of resident memory cannot be reset");
  work();
  return Resident("VmHWM:") - before;
}

struct Model {
  int64_t rows, columns;
  const char* block_dim;
};

struct CheckedRank : Rank {
  explicit CheckedRank(const Model& model) : Rank(SpecOf(model)) { RequireOk(); }

  static RankSpec SpecOf(const Model& model) {
    return {.keys =
                "use_merge_dims=false on_block_mismatch=reset momentum=0.9 grafting=adam factor_dtype=bf16 "
                "inverse_dtype=bf16" +
                Keys{{"max_preconditioner_dim", model.block_dim}},
            .params = {{"matrix", {model.rows, model.columns}}}};
  }
  int64_t StateBytes() const { return PlanBytes("state", 0); }
  size_t Blocks() const { return BlocksOf(*this).size(); }
  void Save(const std::string& directory) {
    Rank::Save(directory);
    RequireOk();
  }
  void Load(const std::string& directory) {
    Rank::Load(directory);
    RequireOk();
  }
  void RequireOk() const { Require(status == SHAMPOO_OK, error); }
};

// Checks saves and loads of a model. other_dim: max_preconditioner_dim of another optimizer, which loads the checkpoint
// into blocks of another size.
void Check(const Model& model, const char* other_dim) {
  const Scratch scratch(Scratch::On::kDisk);
  const std::string directory = scratch / "saves";
  const auto report = [&](const char* what, int64_t taken) {
    std::printf("blocks of %s, %s: %lld KiB in addition to the state\n", model.block_dim, what,
                static_cast<long long>(taken >> 10));
    Require(taken <= kMax, "that is more than 64 MiB");
  };
  {
    CheckedRank saved(model);
    std::printf("%lld MiB of state in %zu blocks\n", static_cast<long long>(saved.StateBytes() >> 20), saved.Blocks());
    Require(saved.StateBytes() >= kMinState, "the state has less than 256 MiB");
    report("save", PeakOf([&] { saved.Save(directory); }));
    report("second save", PeakOf([&] { saved.Save(directory); }));
    report("load into a loaded optimizer", PeakOf([&] {
             saved.Load(directory);  // the second load then overwrites a loaded state
             saved.Load(directory);
           }));
  }
  {
    CheckedRank loaded(model);
    report("load", PeakOf([&] { loaded.Load(directory); }));
  }
  CheckedRank with_other_blocks({model.rows, model.columns, other_dim});
  report("load into other blocks", PeakOf([&] { with_other_blocks.Load(directory); }));
  report("second load into other blocks", PeakOf([&] { with_other_blocks.Load(directory); }));
}

}  // namespace
}  // namespace shampoo_test

int main(int argc, char** argv) {
  using shampoo_test::Check;
  // The kernel would count all bytes of a huge page as resident when the process accesses the first byte.
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  const bool is_long = argc > 1 && std::string(argv[1]) == "--long";
  if (is_long) {
    Check({8192, 8192, "64"}, "96");
  } else {
    Check({4096, 4096, "1024"}, "1000");
    Check({4096, 4096, "64"}, "96");
  }
  return 0;
}
