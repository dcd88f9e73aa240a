// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/step/host_step.h"
#include "core/step/weight_export.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

using Floats = std::vector<float>;

const OptionKeys kEma = "weight_ema=0.5";

// The initial value of each byte of the memory in which updates are exchanged. It is not 0, so that tests can detect a
// block whose update has not been written.
constexpr char kUnwritten = 5;

// A rank that exports averages. All elements of its parameters are 1. If there are several replicas, each block has
// separate memory for its update.
struct Exported : StepFixture {
  explicit Exported(const Setup& setup) : StepFixture(setup) {
    std::vector<BlockTarget> targets = TargetsInBuffers(inputs());
    if (plan().placement.replica_world > 1) {
      for (const Block& block : plan().blocks) {
        sent.emplace_back(static_cast<size_t>(block.elements) * sizeof(float), kUnwritten);
      }
      for (size_t i = 0; i < targets.size(); ++i) targets[i].exchange = sent[i].data();
    }
    averages = std::make_unique<WeightExport>(inputs(), backend().get(), targets);
  }
  explicit Exported(const OptionKeys& keys = kEma, const std::vector<std::vector<int64_t>>& shapes = {{2, 2}, {3}},
                    Placement placement = {})
      : Exported(Setup{.keys = keys, .params = Describe(shapes), .placement = placement}) {}

  void Fill(const std::string& key, float value) {
    const auto elements = static_cast<size_t>(EntryOf(key).span_bytes()) / sizeof(float);
    std::fill_n(StateOf(key), elements, value);
  }
  void Export(double blend, std::vector<void*> weights) {
    averages->Begin(blend, weights);
    averages->Compute(0);
    averages->Finish();
  }
  // Returns the first element that this rank sends for a block.
  float Sent(size_t block) const {
    float value = 0;
    std::memcpy(&value, sent[block].data(), sizeof value);
    return value;
  }
  bool IsSent(size_t block) const { return sent[block] != std::vector<char>(sent[block].size(), kUnwritten); }

  std::vector<std::vector<char>> sent;
  std::unique_ptr<WeightExport> averages;
};

TEST_CASE("an export writes the parameter plus a multiple of the stored offset of the average") {
  Exported exported;
  exported.Fill("p0/0/ema_offset", 4);
  exported.Fill("p1/0/ema_offset", -8);
  for (const double blend : {1.0, 0.25, 0.0}) {
    Floats first(4, 9.0F);
    Floats second(3, 9.0F);
    exported.Export(blend, {first.data(), second.data()});
    const auto part = static_cast<float>(blend);
    CHECK(first == Floats(4, 1 + 4 * part));
    CHECK(second == Floats(3, 1 - 8 * part));
  }
  CHECK(exported.params[0] == Floats(4, 1.0F));
  CHECK(exported.StateOf("p0/0/ema_offset")[0] == 4);
}

TEST_CASE(
    "with averaging=gpa, an export computes the average from the stored iterate, and each group uses its own keys") {
  Exported exported(StepFixture::TwoGroups(kEma, "averaging=gpa average_train=0.5", {{2, 2}, {2, 2}}));
  exported.Fill("p0/0/ema_offset", 3);
  exported.Fill("p1/0/iterate_offset", 3);  // W = (X + Z) / 2 and Z = W + 3, so that X = W - 3
  Floats first(4);
  Floats second(4);
  exported.Export(1, {first.data(), second.data()});
  CHECK(first == Floats(4, 4.0F));
  CHECK(second == Floats(4, -2.0F));
}

TEST_CASE("if steps read one arena and write another, an export reads the arena that steps write") {
  Exported exported;
  CallerArena out(exported.plan().state_bytes());
  CheckOk(exported.state().Bind(exported.state().out(), out.data()));
  std::memset(out.data(), 0, static_cast<size_t>(exported.plan().state_bytes()));
  exported.Fill("p0/0/ema_offset", 4);
  Floats weights(4);
  exported.Export(1, {weights.data(), nullptr});
  CHECK(weights == Floats(4, 5.0F));
}

TEST_CASE("an export writes only the weights that the caller wants in this call") {
  Exported exported;
  exported.Fill("p1/0/ema_offset", 1);
  Floats first(4, 9.0F);
  Floats second(3);
  exported.Export(1, {first.data(), nullptr});
  CHECK(exported.averages->IsWanted(exported.plan().blocks[0]));
  CHECK(!exported.averages->IsWanted(exported.plan().blocks[1]));
  first.assign(4, 9.0F);
  exported.Export(1, {nullptr, second.data()});
  CHECK(first == Floats(4, 9.0F));
  CHECK(second == Floats(3, 2.0F));
  CHECK(!exported.averages->IsWanted(exported.plan().blocks[0]));
}

// Two parameters, of which the second is in a group without an average.
StepFixture::Setup SetupWithPlainGroup(Placement placement = {}) {
  return StepFixture::TwoGroups(kEma, {}, {{2, 2}, {3}}, placement);
}

TEST_CASE("an export of a parameter without an average copies the parameter") {
  for (const bool is_wanted : {true, false}) {
    Exported exported(SetupWithPlainGroup());
    exported.params[1] = {1, 2, 3};
    Floats weights(3, 9.0F);
    exported.Export(0.5, {nullptr, is_wanted ? weights.data() : nullptr});
    CHECK(weights == (is_wanted ? Floats{1, 2, 3} : Floats(3, 9.0F)));
    CHECK(!exported.averages->IsWanted(exported.plan().blocks[1]));
  }
}

TEST_CASE("weights are written in the dtype of the output") {
  StepFixture::Setup setup = SetupWithPlainGroup();
  setup.params[0].out_dtype = setup.params[1].out_dtype = Dtype::kF64;
  Exported exported(setup);
  for (size_t p = 0; p < 2; ++p) exported.Bind(p, nullptr, nullptr);
  exported.Fill("p0/0/ema_offset", 4);
  std::vector<double> first(4);
  std::vector<double> second(3);
  exported.Export(1, {first.data(), second.data()});
  CHECK(first == std::vector<double>(4, 5.0));
  CHECK(second == std::vector<double>(3, 1.0));
}

TEST_CASE(
    "a replica sends the scaled offsets of its own blocks of a bucket, even if the caller passes no memory for weights "
    "of these blocks") {
  const OptionKeys keys = kEma + "comm_bucket_bytes=1";
  Exported exported(keys, {{2, 2}, {2, 2}, {2, 2}, {2, 2}}, ReplicaPlacement(1, 2));
  REQUIRE(exported.plan().bucket_count == 2);
  Floats weights(4, 9.0F);
  for (int p = 0; p < 4; ++p) {
    if (exported.plan().Owns(exported.plan().blocks[static_cast<size_t>(p)])) {
      exported.Fill(Cat("p", p, "/0/ema_offset"), 4);
    }
  }
  exported.averages->Begin(0.5, std::vector<void*>{nullptr, weights.data(), nullptr, nullptr});
  exported.averages->Compute(1);
  int sent = 0;
  for (size_t i = 0; i < 4; ++i) {
    const Block& block = exported.plan().blocks[i];
    CHECK(exported.IsSent(i) == (block.bucket == 1 && exported.plan().Owns(block)));
    if (!exported.IsSent(i)) continue;
    ++sent;
    CHECK(exported.Sent(i) == 2);
  }
  CHECK(sent == 1);
  CHECK(weights == Floats(4, 9.0F));
}

TEST_CASE("a replica sends nothing for a block without an average") {
  for (const int rank : {0, 1}) {
    Exported one(SetupWithPlainGroup(ReplicaPlacement(rank, 2)));
    Floats weights(3);
    one.averages->Begin(1, std::vector<void*>{nullptr, weights.data()});
    one.averages->Compute(one.plan().blocks[1].bucket);
    CHECK(!one.IsSent(1));
    CHECK(one.averages->ItemsToApply(one.plan().blocks[1].bucket).empty());
  }
}

TEST_CASE("a replica writes all weights that its caller wants, also those of blocks of other ranks") {
  const OptionKeys keys = kEma + "comm_bucket_bytes=1";
  Exported exported(keys, {{2, 2}, {2, 2}, {2, 2}, {2, 2}}, ReplicaPlacement(0, 2));
  std::vector<Floats> weights(4, Floats(4, 9.0F));
  std::vector<void*> wanted;
  for (Floats& one : weights) wanted.push_back(one.data());
  wanted[3] = nullptr;
  for (int i = 0; i < 2; ++i) exported.averages->Begin(1, wanted);
  for (size_t i = 0; i < 4; ++i) {
    const Floats received(4, static_cast<float>(i));
    std::memcpy(exported.sent[i].data(), received.data(), exported.sent[i].size());
  }
  size_t applied = 0;
  for (const int64_t bucket : {0, 1}) {
    const std::span<const StepItem> items = exported.averages->ItemsToApply(bucket);
    for (const StepItem& item : items) CHECK(item.block->bucket == bucket);
    exported.backend()->ApplyExchanged(items);
    applied += items.size();
  }
  CHECK(applied == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(weights[i] == Floats(4, 1 + static_cast<float>(i)));
  CHECK(weights[3] == Floats(4, 9.0F));
  const std::span<const char> skipped = exported.averages->update_skipped();
  CHECK(std::vector<char>(skipped.begin(), skipped.end()) == std::vector<char>(4, 0));
  for (int64_t i = 0; i < 4; ++i) CHECK(exported.averages->ItemOf(i).block == &exported.plan().block(i));
}

}  // namespace
}  // namespace shampoo
