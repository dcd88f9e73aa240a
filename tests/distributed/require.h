// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions that make a call on one rank or on all ranks of a job, and require that the call succeeds. Two functions
// check that a call fails. The template parameter `Ranks` is a Grid (grid.h), a Rank, or a class of tests/checkpoint.
// A class of tests/checkpoint needs only the member functions that the template calls.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/distributed/grid.h"

namespace shampoo_test {

template <typename Ranks>
void RequireOk(const Ranks& ranks) {
  REQUIRE_MESSAGE(ranks.All(SHAMPOO_OK), ranks.Errors());
}
inline void RequireOk(const Rank& rank) { REQUIRE_MESSAGE(rank.status == SHAMPOO_OK, rank.error); }

inline void RequireCreate(Grid* grid) {
  grid->SetPatience(std::chrono::seconds(20));
  grid->Create();
  RequireOk(*grid);
}

template <typename Ranks>
void RequireStep(Ranks* ranks) {
  ranks->Step();
  RequireOk(*ranks);
}

// Creates the ranks and sets their parameters to pseudo-random numbers.
inline void RequireStart(Grid* grid) {
  RequireCreate(grid);
  grid->FillParams(1);
}

// Makes one step with the gradients of each seed from first_seed to last_seed.
inline void RunSteps(Grid* grid, uint64_t first_seed, uint64_t last_seed) {
  for (uint64_t seed = first_seed; seed <= last_seed; ++seed) {
    grid->FillGradients(seed);
    RequireStep(grid);
  }
}

// The two functions below make the steps `first` to `last`. In every third step, parameter 1 has no gradient. A Grid
// and a single Rank get the same gradients.
inline void RunStepsWithMissingGradients(Grid* grid, uint64_t first, uint64_t last) {
  for (uint64_t t = first; t <= last; ++t) {
    grid->FillGradients(100 + t);
    for (int rank = 0; rank < grid->world(); ++rank) (*grid)[rank].has_grad[1] = t % 3 != 0;
    RequireStep(grid);
  }
}
inline void RunStepsWithMissingGradients(Rank* rank, uint64_t first, uint64_t last) {
  for (uint64_t t = first; t <= last; ++t) {
    Fill(100 + t, &rank->g);
    rank->has_grad[1] = t % 3 != 0;
    RequireStep(rank);
  }
}

template <typename Ranks>
void RequireSave(Ranks* ranks, const std::string& directory) {
  ranks->Save(directory);
  RequireOk(*ranks);
}

template <typename Ranks>
void RequireLoad(Ranks* ranks, const std::string& directory) {
  ranks->Load(directory);
  RequireOk(*ranks);
}

// Checks that the last call failed on all ranks with the status `status`, that all ranks have the same message, and
// that the message contains each of `words`.
template <typename Ranks>
void CheckFailed(Ranks* ranks, shampoo_status status, const std::vector<std::string>& words = {}) {
  CHECK_MESSAGE(ranks->All(status), ranks->Errors());
  CHECK_MESSAGE(ranks->SameError(), ranks->Errors());
  for (const std::string& word : words)
    CHECK_MESSAGE(Has((*ranks)[0].error, word), word, " is not in ", ranks->Errors());
}

// Makes a step. Checks that it fails on all ranks as CheckFailed() describes, and changes nothing.
inline void CheckStepFails(Grid* grid, shampoo_status status, const std::vector<std::string>& words = {}) {
  const auto before = Everything(grid);
  grid->Step();
  CheckFailed(grid, status, words);
  CHECK(Everything(grid) == before);
}

}  // namespace shampoo_test
