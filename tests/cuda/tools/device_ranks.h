// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda/tools/stage.h"
#include "tests/cuda/tools/staged_comm.h"

namespace shampoo_test {

// Copies of a model on one device, each that of a rank, with a stream of its own. Ranks are threads.
class DeviceRanks {
 public:
  using Work = std::function<shampoo_status(int rank, Model* model)>;

  DeviceRanks(const ModelSpec& spec, int world);
  ~DeviceRanks();
  DeviceRanks(const DeviceRanks&) = delete;
  DeviceRanks& operator=(const DeviceRanks&) = delete;

  // work on every rank at once; what it returns is kept, with the text of the rank's last error.
  void OnEvery(const Work& work);
  void Step();
  void Status();  // waits
  // The same on every rank.
  void FillParams(uint64_t seed);
  void FillGradients(uint64_t seed);
  // As the program does that finds a rank lost: no rank waits any more.
  void Abort();

  int world() const { return static_cast<int>(ranks_.size()); }
  Model& operator[](int rank) { return *ranks_[static_cast<size_t>(rank)].model; }
  shampoo_status status(int rank) const { return ranks_[static_cast<size_t>(rank)].status; }
  const std::string& text(int rank) const { return ranks_[static_cast<size_t>(rank)].text; }
  // "" if every rank has ended with this status and, but for success, with one text, in which all words are; else what
  // they have said.
  std::string Unless(shampoo_status status, const std::vector<std::string>& words = {}) const;
  bool SameParams();
  // Of all ranks, one after another.
  std::vector<std::vector<double>> Params();
  const shampoo_comm_ops& ops(int rank) const { return ops_[static_cast<size_t>(rank)]; }
  int timeouts() { return comm_.host().timeouts(); }

 private:
  struct Rank {
    std::unique_ptr<TestStream> stream;
    std::unique_ptr<Model> model;
    shampoo_status status = SHAMPOO_OK;
    std::string text;
  };

  StagedComm comm_;
  std::vector<shampoo_comm_ops> ops_;
  std::vector<Rank> ranks_;
};

}  // namespace shampoo_test
