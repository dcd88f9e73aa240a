// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/checkpoint/description.h"
#include "core/checkpoint/local_share.h"
#include "core/checkpoint/states_writer.h"
#include "tests/core/step_fixture.h"
#include "tests/core/temporary_directory.h"

namespace shampoo {

// Writes the states of an optimizer to the files of a checkpoint, and keeps the index of the checkpoint in memory.
class SavedStates {
 public:
  explicit SavedStates(StepFixture* saved, const StatesWriter::Limits& limits = {}) {
    CheckpointCall call;
    call.optimizers = saved->states();
    LocalShare share;
    StepFixture::Ok(FindLocalShare(call, OneRank(), &share));
    writer = std::make_unique<StatesWriter>(directory.path(), 1, 0, 1, limits);
    Progress progress("saving", share.bytes());
    StepFixture::Ok(writer->Write(&share.blocks, &progress));
    Descriptions descriptions;
    for (const std::string& text : share.descriptions) descriptions.Add(0, text);
    StepFixture::Ok(descriptions.status());
    index.path = directory / "index";
    index.directory = directory.path();
    index.groups = descriptions.groups();
    index.params = descriptions.params();
    index.files = writer->files();
    for (BlockToSave& block : share.blocks) {
      for (size_t p = 0; p < index.params.size(); ++p) {
        if (index.params[p].name == block.param) block.stored.param = static_cast<int>(p);
      }
      index.blocks.push_back(std::move(block.stored));
    }
  }

  TemporaryDirectory directory;
  CheckpointIndex index;
  std::unique_ptr<StatesWriter> writer;
};

// Sets the elements of all float32 states, except symmetric matrices, to `first`, `first` + 1, `first` + 2, ...
inline void FillStates(StepFixture* fixture, float first) {
  for (const StateEntry& entry : fixture->state().entries()) {
    if (entry.dtype != Dtype::kF32 || entry.symmetric()) continue;
    float* const elements = fixture->StateOf(entry.key);
    for (int64_t i = 0; i < entry.elements(); ++i) elements[i] = first++;
  }
}

}  // namespace shampoo
