// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of state entries: which entries an optimizer has, how callers read and write elements of entries, and how
// entries are packed into rows for files.
#include <numeric>

#include "core/state/elements.h"
#include "tests/core/remote_state.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

struct MatrixWithMomentum : StepFixture {
  MatrixWithMomentum() : StepFixture("use_merge_dims=false momentum=0.5", {{2, 3}}) {}
};

int64_t NumberOfEntry(const OptimizerState& state, const std::string& key) {
  return static_cast<int64_t>(IndexOfEntry(state, key));
}

Status ReadFloats(OptimizerState* state, const std::string& key, int64_t first, std::vector<float>* to,
                  const CallerMemory& memory = {}) {
  const auto count = static_cast<int64_t>(to->size());
  return ReadElements(state, {NumberOfEntry(*state, key), first, count}, to->data(), to->size() * sizeof(float),
                      memory);
}

Status WriteFloats(OptimizerState* state, const std::string& key, int64_t first, const std::vector<float>& from,
                   const CallerMemory& memory = {}) {
  const auto count = static_cast<int64_t>(from.size());
  return WriteElements(state, {NumberOfEntry(*state, key), first, count}, from.data(), from.size() * sizeof(float),
                       memory);
}

TEST_CASE("the entries of an optimizer are its step counters followed by the states of each block") {
  const MatrixWithMomentum matrix;
  std::vector<std::string> keys;
  for (const StateEntry& entry : ListEntries(matrix.plan())) keys.push_back(entry.key);
  CHECK(keys == std::vector<std::string>{"group.0/step", "p0/0/factor.0", "p0/0/inverse.0", "p0/0/factor.1",
                                         "p0/0/inverse.1", "p0/0/diagonal", "p0/0/filtered_grad", "p0/0/grafting",
                                         "p0/0/momentum"});
  const StateEntry& momentum = matrix.EntryOf("p0/0/momentum");
  CHECK(momentum.state() == "momentum");
  CHECK(momentum.elementwise());
  CHECK(momentum.shape == Shape::Of({2, 3}));
  CHECK(momentum.block == 0);
  const StateEntry& factor = matrix.EntryOf("p0/0/factor.1");
  CHECK(factor.symmetric());
  CHECK(!factor.elementwise());
  CHECK(factor.shape == Shape::Of({3, 3}));
  CHECK(matrix.EntryOf("group.0/step").block == -1);
}

TEST_CASE("a rank lists no entries of blocks that other ranks own, and is the owner of all entries that it lists") {
  const StepFixture rank({}, {{2, 3}, {2, 3}}, ReplicaPlacement(1, 2));
  for (const StateEntry& entry : ListEntries(rank.plan())) {
    CHECK(entry.owner == 1);
    if (entry.block >= 0) CHECK(rank.plan().Owns(rank.plan().block(entry.block)));
  }
}

TEST_CASE("elements that were written are read back, and other elements are unchanged") {
  for (const bool on_device : {false, true}) {
    MatrixWithMomentum matrix;
    RemoteState remote(matrix.plan());
    OptimizerState& state = on_device ? *remote.state : matrix.state();
    const CallerMemory memory{on_device ? DeviceType::kCuda : DeviceType::kCpu, nullptr};
    CheckOk(WriteFloats(&state, "p0/0/momentum", 0, {1, 2, 3, 4, 5, 6}, memory));
    CheckOk(WriteFloats(&state, "p0/0/momentum", 2, {7, 8}, memory));
    std::vector<float> back(5);
    CheckOk(ReadFloats(&state, "p0/0/momentum", 1, &back, memory));
    CHECK(back == std::vector<float>{2, 7, 8, 5, 6});
  }
}

TEST_CASE("a symmetric matrix is read in full, and a write uses only the elements of the lower triangle") {
  MatrixWithMomentum matrix;
  CheckOk(WriteFloats(&matrix.state(), "p0/0/factor.0", 0, {1, 99, 2, 3}));
  std::vector<float> back(4);
  CheckOk(ReadFloats(&matrix.state(), "p0/0/factor.0", 0, &back));
  CHECK(back == std::vector<float>{1, 2, 2, 3});
  CHECK(matrix.StateOf("p0/0/factor.0")[1] == 2);  // a small matrix is stored in full
}

TEST_CASE("an index, a range or a buffer that does not fit is an error, and nothing is read or written") {
  MatrixWithMomentum matrix;
  OptimizerState& state = matrix.state();
  const auto before = matrix.States();
  const int64_t momentum = NumberOfEntry(state, "p0/0/momentum");
  const auto entries = static_cast<int64_t>(state.entries().size());
  float buffer[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  struct Case {
    ElementRange range;
    size_t bytes;
    std::string says;
  };
  for (const Case& one :
       {Case{{-1, 0, 1}, 4, Cat("index is -1: expected 0 to ", entries - 1)},
        Case{{entries, 0, 1}, 4, Cat("index is ", entries)},
        Case{{momentum, -1, 1}, 4, "entry \"p0/0/momentum\": first is -1 and count is 1"},
        Case{{momentum, 0, -1}, 4, "first is 0 and count is -1"},
        Case{{momentum, 0, 7}, 28, "expected a range within [0, 6), the elements of the entry"},
        Case{{momentum, 7, 0}, 28, "first is 7 and count is 0"},
        Case{{momentum, INT64_MAX, INT64_MAX}, 4, "expected a range within [0, 6), the elements of the entry"},
        Case{{momentum, 0, 2}, 7, "_bytes is 7: expected at least 8, because count is 2 and the dtype is f32"}}) {
    CheckError(ReadElements(&state, one.range, buffer, one.bytes, {}), Code::kInvalid, one.says);
    CheckError(WriteElements(&state, one.range, buffer, one.bytes, {}), Code::kInvalid, one.says);
  }
  CheckError(ReadElements(&state, {momentum, 0, 2}, buffer, 0, {}), Code::kInvalid, "dst_bytes is 0");
  CheckError(WriteElements(&state, {momentum, 0, 2}, buffer, 0, {}), Code::kInvalid, "src_bytes is 0");
  CHECK(matrix.States() == before);
  CHECK(buffer[0] == 9);
  CHECK(matrix.observer.calls.empty());
}

TEST_CASE("reading or writing elements first waits for pending steps and returns their error") {
  MatrixWithMomentum matrix;
  std::vector<float> element(1, 4.0F);
  CheckOk(ReadFloats(&matrix.state(), "p0/0/momentum", 0, &element));
  CheckOk(WriteFloats(&matrix.state(), "p0/0/momentum", 0, {5}));
  CHECK(matrix.observer.calls == std::vector<std::string>{"finish", "finish", "write"});
  matrix.observer.finish = Numeric("a step failed");
  CheckError(ReadFloats(&matrix.state(), "p0/0/momentum", 0, &element), Code::kNumeric, "a step failed");
  CheckError(WriteFloats(&matrix.state(), "p0/0/momentum", 0, {6}), Code::kNumeric, "a step failed");
  CHECK(matrix.StateOf("p0/0/momentum")[0] == 5);
}

TEST_CASE("unpacking rows of a symmetric matrix into any SymmetricForm and packing them again gives the same rows") {
  constexpr int64_t kSize = 40;  // the last rows are so long that the limit of 100 elements admits only two of them
  for (const SymmetricForm form : {SymmetricForm::kSquare, SymmetricForm::kLower, SymmetricForm::kUpper,
                                   SymmetricForm::kPackedLower, SymmetricForm::kPackedUpper}) {
    CAPTURE(static_cast<int>(form));
    StateEntry entry;
    entry.shape = Shape::Of({kSize, kSize});
    entry.form = form;
    REQUIRE(PackedRows(entry) == kSize);
    REQUIRE(PackedBytes(entry) == 4 * kSize * (kSize + 1) / 2);
    std::vector<float> packed(static_cast<size_t>(PackedBytes(entry)) / 4);
    std::iota(packed.begin(), packed.end(), 1.0F);
    std::vector<float> memory(static_cast<size_t>(entry.span_bytes()) / 4, -1.0F);
    std::vector<float> back(packed.size());
    for (int64_t row = 0; row < kSize;) {
      const int64_t last = LastRowWithin(entry, row, 100);
      const int64_t before = PackedBefore(entry, row);
      CHECK((last == row + 1 || PackedBefore(entry, last) - before <= 100));
      UnpackRows(entry, reinterpret_cast<const char*>(&packed[static_cast<size_t>(before)]), row, last,
                 reinterpret_cast<char*>(memory.data()));
      PackRows(entry, reinterpret_cast<const char*>(memory.data()), row, last,
               reinterpret_cast<char*>(&back[static_cast<size_t>(before)]));
      row = last;
    }
    CHECK(back == packed);
    for (int64_t row = 0; row < kSize; ++row) {
      for (int64_t column = 0; column <= row; ++column) {
        const float element = packed[static_cast<size_t>(row * (row + 1) / 2 + column)];
        CHECK(memory[static_cast<size_t>(KeptAt(form, kSize, row, column))] == element);
        if (form == SymmetricForm::kSquare) CHECK(memory[static_cast<size_t>(column * kSize + row)] == element);
      }
    }
  }
}

TEST_CASE("in the packed form of an entry that is not a symmetric matrix, each element is a row") {
  StateEntry entry;
  entry.shape = Shape::Of({2, 3});
  entry.dtype = Dtype::kF64;
  CHECK(PackedRows(entry) == 6);
  CHECK(PackedBytes(entry) == 48);
  CHECK(LastRowWithin(entry, 2, 3) == 5);
  CHECK(LastRowWithin(entry, 2, 0) == 3);
  CHECK(LastRowWithin(entry, 2, 100) == 6);
}

}  // namespace
}  // namespace shampoo
