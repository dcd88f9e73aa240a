// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that states of an optimizer can be written to files and read back, into the same blocks or into other blocks.
#include <fstream>

#include "core/checkpoint/checkpoint_files.h"
#include "core/checkpoint/load.h"
#include "core/checkpoint/matching.h"
#include "core/checkpoint/resharder.h"
#include "core/checkpoint/save.h"
#include "core/checkpoint/states_reader.h"
#include "tests/core/checkpoint_fixture.h"
#include "tests/core/log_capture.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

OptionKeys BlocksOf(const char* dim) { return Cat("use_merge_dims=false momentum=0.5 max_preconditioner_dim=", dim); }
const std::vector<std::vector<int64_t>> kSavedShapes = {{4, 6}, {5}};

// Loads those blocks of `to` that were saved with the same layout.
Status LoadDirect(const SavedStates& saved, StepFixture* to) {
  Matching matching(to->states());
  SHAMPOO_RETURN_IF_ERROR(matching.Match(saved.index));
  StatesReader reader(saved.index);
  std::vector<char> copy;
  for (const Matching::Direct& direct : matching.direct()) {
    for (const StateEntry* state : direct.states) {
      const StoredEntry& entry = *direct.stored->Find(state->state());
      SHAMPOO_RETURN_IF_ERROR(reader.Check(*direct.stored, entry, PackedBytes(*state)));
      SHAMPOO_RETURN_IF_ERROR(direct.optimizer->Change(
          *state, &copy, [&](char* memory) { return reader.Load(*direct.stored, entry, *state, memory); }));
    }
  }
  return {};
}

// Replaces the byte that is from_end bytes before the end of a file.
void Spoil(const std::string& path, int from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-from_end, std::ios::end);
  file.put(char{0x5a});
}

TEST_CASE("states that were written are read back from one file or from one file per block") {
  for (const size_t entries : {size_t{1} << 14, size_t{1}}) {
    StepFixture from(BlocksOf("4"), kSavedShapes);
    FillStates(&from, 1);
    StatesWriter::Limits limits;
    limits.entries = entries;
    const SavedStates saved(&from, limits);
    CHECK(saved.index.files.size() == (entries == 1 ? 4 : 1));
    CHECK(saved.directory.Has(StatesName(1, 0, 1, 1)));
    CHECK(saved.directory.Has(StatesName(1, 0, 1, 4)) == (entries == 1));
    CHECK(!saved.directory.Has(StatesName(1, 0, 1, 1) + kTemporary));
    StepFixture to(BlocksOf("4"), kSavedShapes);
    CheckOk(LoadDirect(saved, &to));
    CHECK(to.States() == from.States());
  }
}

TEST_CASE("Undo removes the files that a writer has written") {
  StepFixture from(BlocksOf("4"), kSavedShapes);
  const SavedStates saved(&from);
  saved.writer->Undo();
  CHECK(!saved.directory.Has(StatesName(1, 0, 1, 1)));
}

TEST_CASE("reading a file that was changed, truncated or removed returns an error") {
  StepFixture from(BlocksOf("4"), kSavedShapes);
  FillStates(&from, 1);
  const std::string name = StatesName(1, 0, 1, 1);
  const SavedStates changed(&from);
  CheckOk(StatesReader(changed.index).CheckFile(0));
  Spoil(changed.directory / name, 1);
  CheckError(LoadDirect(changed, &from), Code::kIo, "its checksum does not match: the file was changed");
  const StoredBlock& last = changed.index.blocks.back();
  CheckError(StatesReader(changed.index).CheckElementwise(last, last.entries.back()), Code::kIo, "its checksum");
  const StateEntry& state = from.EntryOf(last.key + "/" + last.entries.back().state);
  CheckError(
      StatesReader(changed.index).Load(last, last.entries.back(), state, from.state().out() + state.arena_offset),
      Code::kIo, "its checksum");

  const SavedStates header(&from);
  Spoil(header.directory / name, static_cast<int>(header.index.files[0].bytes) - 20);
  CheckError(StatesReader(header.index).CheckFile(0), Code::kIo, name);

  const SavedStates cut(&from);
  std::filesystem::resize_file(cut.directory / name, static_cast<uintmax_t>(cut.index.files[0].bytes) - 1);
  CheckError(StatesReader(cut.index).CheckFile(0), Code::kIo, "it was changed or truncated");

  // The test truncates the file, and sets the size in the index to the new size.
  SavedStates empty(&from);
  std::filesystem::resize_file(empty.directory / name, 4);
  empty.index.files[0].bytes = 4;
  CheckError(StatesReader(empty.index).CheckFile(0), Code::kIo, "it has 4 bytes; expected at least 8");

  const SavedStates missing(&from);
  missing.writer->Undo();
  CheckError(StatesReader(missing.index).CheckFile(0), Code::kIo, name);
}

TEST_CASE("if an entry of the index does not match its file, the error has the name of the entry") {
  StepFixture from(BlocksOf("4"), kSavedShapes);
  const SavedStates saved(&from);
  StatesReader reader(saved.index);
  const StoredBlock& block = saved.index.blocks[0];
  const StoredEntry& momentum = *block.Find("momentum");
  CheckOk(reader.CheckElementwise(block, momentum));
  CheckError(reader.Check(block, momentum, 4), Code::kIo,
             Cat("entry \"", TensorName(block, "momentum"), "\": its size does not match its block"));
  StoredEntry other = momentum;
  other.dtype = Dtype::kF64;
  CheckError(reader.CheckElementwise(block, other), Code::kIo, "its dtype differs from that in the index");
  other = momentum;
  other.state = "no_state";
  CheckError(reader.CheckElementwise(block, other), Code::kIo, "no_state");
  float elements[2];
  const int64_t last = block.place.elements() - 1;
  CheckOk(reader.ReadRange(block, momentum, last, 1, elements));
  CheckError(reader.ReadRange(block, momentum, last, 2, elements), Code::kIo, "its size does not match its block");
}

TEST_CASE("ReadWindow assembles a range of elements of a parameter from the blocks that contain them") {
  StepFixture from(BlocksOf("4"), {{4, 6}});
  // One block has columns 0 to 3, and the other block has columns 4 and 5. The test sets the momentum of each
  // element to the position of the element in the parameter.
  for (const StateEntry& entry : from.state().entries()) {
    if (entry.state() != "momentum") continue;
    const int64_t columns = entry.shape[1];
    for (int64_t i = 0; i < entry.elements(); ++i) {
      const int64_t first = entry.block == 0 ? 0 : 24 / 4 - columns;
      from.StateOf(entry.key)[i] = static_cast<float>(first + i / columns * 6 + i % columns);
    }
  }
  const SavedStates saved(&from);
  REQUIRE(saved.index.blocks.size() == 2);
  StatesReader reader(saved.index);
  std::vector<float> window(10, -1.0F);
  const StoredBlock* const blocks[] = {&saved.index.blocks[0], &saved.index.blocks[1]};
  CheckOk(reader.ReadWindow(blocks, "momentum", 3, 10, reinterpret_cast<char*>(window.data())));
  for (size_t i = 0; i < window.size(); ++i) CHECK(window[i] == static_cast<float>(i + 3));
}

TEST_CASE("elementwise states are resharded into other blocks") {
  StepFixture from(BlocksOf("4"), kSavedShapes);
  FillStates(&from, 1);
  const SavedStates saved(&from);
  StepFixture to(BlocksOf("3") + "on_block_mismatch=reset", kSavedShapes);
  const auto resharded = [](const SavedStates& source, StepFixture* target) {
    Matching matching(target->states());
    CheckOk(matching.Match(source.index));
    StatesReader reader(source.index);
    Resharder resharder(&reader);
    for (const Matching::ReshardedParam& one : matching.resharded()) CheckOk(resharder.Load(source.index, one));
    return matching.reset_blocks();
  };
  CHECK(resharded(saved, &to) == static_cast<int64_t>(to.plan().blocks.size()));
  // After resharding into the original blocks, every elementwise state has its original value.
  const SavedStates again(&to);
  StepFixture back(BlocksOf("4") + "on_block_mismatch=reset", kSavedShapes);
  resharded(again, &back);
  for (const StateEntry& entry : from.state().entries()) {
    if (!entry.elementwise()) continue;
    for (int64_t i = 0; i < entry.elements(); ++i) CHECK(back.StateOf(entry.key)[i] == from.StateOf(entry.key)[i]);
  }
}

TEST_CASE("a save and a load by one rank restore all states") {
  const TemporaryDirectory directory;
  StepFixture from(BlocksOf("4"), kSavedShapes);
  FillStates(&from, 1);
  CheckOk(from.state().WriteSteps(0, 12));
  StepFixture to(BlocksOf("4"), kSavedShapes);
  CheckpointCall call;
  call.directory = directory / "new";
  call.library = "1.2.3";
  call.optimizers = from.states();
  CheckOk(SaveCheckpoint(call, {}));
  CheckOk(SaveCheckpoint(call, {}));
  CHECK(directory.Has("new/" + IndexName(2)));
  CHECK(!directory.Has("new/" + IndexName(1)));
  call.optimizers = to.states();
  CheckOk(LoadCheckpoint(call));
  CHECK(to.States() == from.States());
  CHECK(to.observer.calls.back() == "replace");
}

TEST_CASE("a load that fails leaves the state unchanged") {
  const TemporaryDirectory directory;
  StepFixture from(BlocksOf("4"), kSavedShapes);
  CheckpointCall call;
  call.directory = directory.path();
  call.optimizers = from.states();
  CheckError(LoadCheckpoint(call), Code::kIo, "has no checkpoint");
  CheckOk(SaveCheckpoint(call, {}));
  Spoil(directory / StatesName(1, 0, 1, 1), 1);
  for (const bool initial : {false, true}) {
    StepFixture to(BlocksOf("4"), kSavedShapes);
    if (!initial) FillStates(&to, 100);
    if (!initial) CheckOk(to.state().WriteSteps(0, 5));
    const auto before = to.States();
    call.optimizers = to.states();
    CheckError(LoadCheckpoint(call), Code::kIo, "its checksum does not match");
    CHECK(to.States() == before);
    CHECK(to.state().is_initial() == initial);
  }
}

}  // namespace
}  // namespace shampoo
