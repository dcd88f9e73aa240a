// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// The checkpoint in format1/ was written by the first version of the library that could write checkpoints. Every later
// version must be able to load this checkpoint.
//   shampoo_checkpoint_format1 check DIR    loads the checkpoint in DIR and compares its states with DIR/expected.txt
//   shampoo_checkpoint_format1 write DIR    writes a checkpoint and expected.txt to DIR
// The checkpoint covers these features of the format: two ranks, whole parameters, flat shards, rectangles that are not
// contiguous, two groups, every dtype of a state, and matrices that are stored as squares and as triangles.
#include <cinttypes>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/distributed/grid.h"

namespace {

using namespace shampoo_test;

constexpr int kRanks = 2;
constexpr int kSteps = 4;

Grid MakeGrid() {
  RankSpec spec = {.keys = "grafting=adam precondition_frequency=2 momentum=0.5 use_merge_dims=false"};
  spec.groups = {spec.keys +
                 "use_merge_dims=true factor_dtype=f64 inverse_dtype=f32 filtered_grad_dtype=bf16 grafting_dtype=f32 "
                 "momentum_dtype=f16"};
  spec.params = {{"flat/\"x\"", {7, 5}}, {"rectangle", {6, 10}, 1}, {"whole \xc3\xa4", {130}}, {"scalar", {}, 1}};
  Shards shards(kRanks, spec.params);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<ParamSpec>& held = shards[static_cast<size_t>(rank)];
    rank == 0 ? held[0].CutFlat(0, 13) : held[0].CutFlat(13, 22);
    rank == 0 ? held[1].CutAlong(1, 0, 4) : held[1].CutAlong(1, 4, 6);
  }
  return Grid(spec, 1, shards);
}

// Returns a line "rank key dtype ( shape ) hash" for each entry of each rank. The hash is FNV-1a of all elements.
std::string Describe(Grid* grid) {
  std::ostringstream text;
  for (int rank = 0; rank < kRanks; ++rank) {
    for (const StateEntry& entry : EntriesOf((*grid)[rank])) {
      uint64_t hash = 14695981039346656037U;
      for (const char byte : ReadBytes((*grid)[rank], entry)) {
        hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
      }
      text << rank << ' ' << entry.key << ' ' << entry.dtype << " (";
      for (int k = 0; k < entry.ndim; ++k) text << ' ' << entry.shape[k];
      text << " ) " << std::hex << hash << std::dec << '\n';
    }
  }
  return text.str();
}

// Makes `call` on all ranks at once. Returns the error of rank 0, or an empty string if rank 0 succeeded.
template <typename Call>
std::string Together(Grid* grid, Call&& call) {
  ThreadComm world(kRanks);
  std::vector<std::string> errors(kRanks);
  OnEveryRank(kRanks, [&](int rank) {
    const shampoo_comm_ops ops = world.OpsOf(rank);
    shampoo_comm* comm = nullptr;
    if (shampoo_comm_from_ops(&comm, &ops) != SHAMPOO_OK ||
        call(&(*grid)[rank].optimizer, 1, comm, nullptr) != SHAMPOO_OK) {
      errors[static_cast<size_t>(rank)] = shampoo_last_error();
    }
    shampoo_comm_destroy(comm);
  });
  return errors[0];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what != "check" && what != "write") {
    std::cerr << "usage: shampoo_checkpoint_format1 check|write DIR\n";
    return 2;
  }
  const std::string directory = argv[2];
  Grid grid = MakeGrid();
  grid.Create();
  std::string error = grid.All(SHAMPOO_OK) ? "" : grid.Errors();
  if (what == "write" && error.empty()) {
    grid.FillParams(1);
    for (int step = 0; step < kSteps; ++step) {
      grid.FillGradients(static_cast<uint64_t>(step) + 2);
      grid.Step();
    }
    error = Together(&grid, [&](shampoo_optimizer** opt, int32_t count, shampoo_comm* world, void* stream) {
      return shampoo_save(opt, count, world, directory.c_str(), stream);
    });
    std::ofstream(directory + "/expected.txt") << Describe(&grid);
  } else if (error.empty()) {
    error = Together(&grid, [&](shampoo_optimizer** opt, int32_t count, shampoo_comm* world, void* stream) {
      return shampoo_load(opt, count, world, directory.c_str(), stream);
    });
    std::ifstream file(directory + "/expected.txt");
    const std::string expected((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const std::string found = Describe(&grid);
    if (error.empty() && (expected.empty() || found != expected)) {
      error = "the states differ; expected\n" + expected + "found\n" + found;
    }
  }
  if (!error.empty()) std::cerr << error << '\n';
  return error.empty() ? 0 : 1;
}
