// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/reshard/world.h"

#include <algorithm>

namespace shampoo_test {

World::World(int ranks, int32_t device_type) : comm_(ranks), calls_(static_cast<size_t>(ranks)) {
  comm_.patience = std::chrono::seconds(10);
  for (int rank = 0; rank < ranks; ++rank) {
    shampoo_comm_ops ops = comm_.OpsOf(rank);
    ops.device_type = device_type;
    shampoo_comm_from_ops(&handles_.emplace_back(nullptr), &ops);
  }
}

World::~World() {
  for (shampoo_comm* const handle : handles_) shampoo_comm_destroy(handle);
}

void World::Save(const std::string& directory) {
  SetDirectory(directory);
  Save();
}

void World::Load(const std::string& directory) {
  SetDirectory(directory);
  Load();
}

bool World::All(shampoo_status status) const {
  return comm_.timeouts() == 0 &&
         std::all_of(calls_.begin(), calls_.end(), [&](const Call& call) { return call.status == status; });
}

bool World::SameError() const {
  return std::all_of(calls_.begin(), calls_.end(), [&](const Call& call) { return call.error == calls_[0].error; });
}

std::string World::Errors() const {
  std::string text = std::to_string(comm_.timeouts()) + " timed out\n";
  for (const Call& call : calls_) text += std::to_string(call.status) + ": " + call.error + "\n";
  return text;
}

void World::Run(decltype(&shampoo_save) function) {
  OnEveryRank(comm_.world(), [&](int rank) {
    Call& call = (*this)[rank];
    const int32_t count = call.count == Call::kAll ? static_cast<int32_t>(call.opts.size()) : call.count;
    call.status = function(call.passes_opts ? call.opts.data() : nullptr, count, handles_[static_cast<size_t>(rank)],
                           call.directory, call.stream);
    call.error = call.status == SHAMPOO_OK ? "" : shampoo_last_error();
  });
}

void World::SetDirectory(const std::string& directory) {
  for (Call& call : calls_) call.directory = directory.c_str();
}

}  // namespace shampoo_test
