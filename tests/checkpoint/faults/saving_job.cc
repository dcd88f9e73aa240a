// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/faults/saving_job.h"

#include <utility>

namespace shampoo_test {

RankSpec SmallSpec() {
  return {.keys = "max_preconditioner_dim=8 grafting=adam momentum=0.9",
          .params = {{"matrix", {12, 7}}, {"vector", {5}}}};
}

RankSpec LargeSpec() {
  // No roots are computed, because they would take most of the time of a step.
  return {.keys = "max_preconditioner_dim=256 grafting=adam momentum=0.9 start_preconditioning_step=1000000",
          .params = {{"matrix", {512, 512}}, {"wide", {256, 1024}}}};
}

SavingJob::SavingJob(const RankSpec& spec, int world) : grid_(spec, world, 1) {
  grid_.Create();
  grid_.FillParams(1);
  NewComm();
}

SavingJob::~SavingJob() {
  for (shampoo_comm* const handle : handles_) shampoo_comm_destroy(handle);
}

void SavingJob::NewComm(bool with_abort) {
  for (shampoo_comm* const handle : handles_) shampoo_comm_destroy(handle);
  comm_ = std::make_unique<ThreadComm>(world());
  ops_.clear();
  handles_.assign(static_cast<size_t>(world()), nullptr);
  for (int rank = 0; rank < world(); ++rank) ops_.push_back(comm_->OpsOf(rank, with_abort));
  for (size_t rank = 0; rank < handles_.size(); ++rank) shampoo_comm_from_ops(&handles_[rank], &ops_[rank]);
}

void SavingJob::StepTo(int64_t step) {
  while (grid_.All(SHAMPOO_OK) && steps() < step) {
    grid_.FillGradients(static_cast<uint64_t>(100 + steps()));
    grid_.Step();
  }
}

template <typename Function>
void SavingJob::OnAll(Function function, const std::string& directory) {
  OnEveryRank(world(), [&](int r) {
    Rank& rank = grid_[r];
    const auto call = [&] {
      shampoo_comm* const world_comm = world() > 1 ? handles_[static_cast<size_t>(r)] : nullptr;
      rank.status = function(&rank.optimizer, 1, world_comm, directory.c_str(), nullptr);
    };
    around ? around(r, call) : call();
    rank.error = rank.status == SHAMPOO_OK ? "" : shampoo_last_error();
  });
}

void SavingJob::Save(const std::string& directory) { OnAll(&shampoo_save, directory); }

void SavingJob::Load(const std::string& directory) { OnAll(&shampoo_load, directory); }

void SavingJob::WatchFiles(int rank, FileWatch::Handler handler) {
  around = [rank, handler = std::move(handler)](int own, const std::function<void()>& call) {
    if (own != rank) return call();
    const FileWatch watch(handler);
    call();
  };
}

std::vector<Bytes> SavingJob::States() {
  std::vector<Bytes> states;
  for (int rank = 0; rank < world(); ++rank) {
    Bytes all = shampoo_test::Everything(grid_[rank]);
    states.emplace_back(all.begin() + static_cast<int64_t>(grid_[rank].w.size()), all.end());
  }
  return states;
}

}  // namespace shampoo_test
