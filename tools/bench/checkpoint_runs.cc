// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/checkpoint_runs.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>

#include "tools/bench/disk.h"
#include "tools/bench/fail.h"

namespace bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t{1} << 20;

// Returns a model with Adam grafting and momentum. The state takes 20 bytes for each element of a parameter.
shampoo_test::RankSpec ModelOf(const CheckpointSize& size) {
  shampoo_test::RankSpec model;
  model.keys = {{"grafting", "adam"}, {"momentum", "0.9"}, {"max_preconditioner_dim", std::to_string(size.dim)}};
  model.groups = {model.keys};
  model.groups[0].back().second = std::to_string(size.dim / 2);
  const int64_t matrices = std::max(int64_t{2}, size.mib * kMiB / (20 * size.dim * size.dim));
  for (int64_t i = 0; i < matrices; ++i) {
    model.params.push_back({"matrix." + std::to_string(i), {size.dim, size.dim}, static_cast<int32_t>(i % 2)});
  }
  return model;
}

std::unique_ptr<shampoo_test::Rank> Make(const shampoo_test::RankSpec& model) {
  auto rank = std::make_unique<shampoo_test::Rank>(model);
  if (rank->status != SHAMPOO_OK) Fail(rank->error);
  return rank;
}

// Fills the float32 states with random numbers, which a file system can hardly compress. The upper two bits of each
// number are 0, so it is finite.
void FillState(const shampoo_test::Rank& rank) {
  std::mt19937_64 random(1);
  std::vector<uint32_t> bits;
  int64_t count = 0;
  Try(shampoo_state_count(rank.optimizer, &count));
  for (int64_t i = 0; i < count; ++i) {
    shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
    Try(shampoo_state_describe(rank.optimizer, i, &entry));
    if (entry.dtype != SHAMPOO_F32) continue;
    int64_t elements = 1;
    for (int k = 0; k < entry.ndim; ++k) elements *= entry.shape[k];
    bits.resize(static_cast<size_t>(elements));
    for (uint32_t& one : bits) one = static_cast<uint32_t>(random() & 0x3fffffff);
    Try(shampoo_state_write(rank.optimizer, i, 0, elements, bits.data(), bits.size() * sizeof bits[0], SHAMPOO_CPU,
                            nullptr));
  }
}

double TimeOf(shampoo_test::Rank* rank, const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (rank->status != SHAMPOO_OK) Fail(rank->error);
  return seconds;
}

}  // namespace

CheckpointRuns::CheckpointRuns(const CheckpointSize& size, const std::string& directory)
    : model_(ModelOf(size)),
      folder_(directory + "/shampoo_checkpoint_bench." + std::to_string(std::random_device()())),
      saved_(folder_ + "/saved"),
      dd_file_(folder_ + "/dd") {
  std::error_code error;
  if (!fs::create_directory(folder_, error)) Fail("cannot create the folder " + folder_ + ": " + error.message());
  rank_ = Make(model_);
  FillState(*rank_);
  Save();  // creates the files that are listed and measured below
  for (const auto& file : fs::directory_iterator(saved_)) {
    if (file.path().extension() != ".safetensors") continue;
    data_files_.push_back(file.path().string());
    bytes_ += static_cast<int64_t>(file.file_size());
  }
}

CheckpointRuns::~CheckpointRuns() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

double CheckpointRuns::Save() {
  fs::remove_all(saved_);
  Sync(folder_);
  return TimeOf(rank_.get(), [this] { rank_->Save(saved_); });
}

CheckpointRun CheckpointRuns::TimeOnce(bool dd_first) {
  CheckpointRun run{};
  const auto rate = [this](double seconds) { return static_cast<double>(bytes_) / seconds; };
  for (const bool dd : {dd_first, !dd_first}) {
    if (dd) {
      fs::remove(dd_file_);
      Sync(folder_);
      run.dd_write = rate(TimeDdWrite(dd_file_, bytes_));
    } else {
      run.save = rate(Save());
    }
  }
  fs::remove(dd_file_);
  const std::unique_ptr<shampoo_test::Rank> fresh = Make(model_);
  Sync(folder_);
  // Layers below the file system may cache the files, too. The read below is not timed. It fills the caches of these
  // layers, so that dd and the library benefit equally from them.
  for (const auto& file : fs::directory_iterator(saved_)) DropCache(file.path().string());
  (void)TimeDdRead(data_files_);
  for (const bool dd : {dd_first, !dd_first}) {
    for (const auto& file : fs::directory_iterator(saved_)) DropCache(file.path().string());
    if (dd) {
      run.dd_read = rate(TimeDdRead(data_files_));
    } else {
      run.load = rate(TimeOf(fresh.get(), [&] { fresh->Load(saved_); }));
    }
  }
  return run;
}

}  // namespace bench
