// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests how a checkpoint describes optimizers, and how a load finds the states of its optimizers in a checkpoint.
#include <functional>

#include "core/checkpoint/checkpoint_call.h"
#include "core/checkpoint/matching.h"
#include "tests/core/checkpoint_fixture.h"
#include "tests/core/comm_test_util.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

const OptionKeys kMatchedKeys = "max_preconditioner_dim=4 use_merge_dims=false momentum=0.5";

// The index of a checkpoint of two parameters, and an optimizer that loads the checkpoint.
struct Matched {
  explicit Matched(const OptionKeys& more = {}) : Matched(more, StepFixture::Describe({{4, 6}, {5}})) {}
  Matched(const OptionKeys& more, const std::vector<ParamDesc>& params)
      : from(kMatchedKeys, {{4, 6}, {5}}),
        saved(&from),
        index(saved.index),
        to({.keys = kMatchedKeys + more, .params = params}),
        matching(to.states()) {}
  Status Match() { return matching.Match(index); }

  StepFixture from;
  SavedStates saved;
  CheckpointIndex index;
  StepFixture to;
  Matching matching;
};

TEST_CASE("blocks with the saved layout are matched, and the blocks of each file are in the order of the index") {
  Matched matched;
  matched.index.groups[0].step = 9;
  std::swap(matched.index.blocks[0], matched.index.blocks[2]);
  CheckOk(matched.Match());
  REQUIRE(matched.matching.direct().size() == matched.to.plan().blocks.size());
  for (size_t i = 0; i < matched.index.blocks.size(); ++i) {
    CHECK(matched.matching.direct()[i].stored == &matched.index.blocks[i]);
  }
  CHECK(matched.matching.resharded().empty());
  CHECK(matched.matching.reset_blocks() == 0);
  CHECK(matched.matching.warnings().empty());
  REQUIRE(matched.matching.steps().size() == 1);
  CHECK(matched.matching.steps()[0].steps == 9);
  CHECK(matched.matching.HasParam("p1"));
  CHECK(!matched.matching.HasParam("p2"));
}

TEST_CASE("a checkpoint that does not contain the key method is loaded as if it had method=shampoo") {
  Matched matched;
  std::erase_if(matched.index.groups[0].config, [](const auto& pair) { return pair.first == "method"; });
  CheckOk(matched.Match());
}

TEST_CASE("a rank needs only the saved blocks of its own parameters") {
  const Matched matched({}, StepFixture::Describe({{4, 6}}));
  for (const StoredBlock& block : matched.index.blocks) {
    CHECK(matched.matching.Needs(matched.index, block) ==
          (matched.index.params[static_cast<size_t>(block.param)].name == "p0"));
  }
}

TEST_CASE("a load of a checkpoint that does not match the optimizer fails with an error that names the mismatch") {
  struct Case {
    Code code;
    const char* says;
    OptionKeys keys;
    std::function<void(CheckpointIndex*)> change = [](CheckpointIndex*) {};
  };
  const auto set_shape = [](CheckpointIndex* index) { index->params[0].shape = Shape::Of({6, 4}); };
  const auto add_group = [](CheckpointIndex* index) {
    index->groups.push_back(index->groups[0]);
    index->groups[1].step = 3;
    index->params[1].group = 1;
  };
  const auto set_method = [](CheckpointIndex* index) {
    for (auto& [key, value] : index->groups[0].config) {
      if (key == "method") value = "adam";
    }
  };
  const auto without = [](const char* state) {
    return [state](CheckpointIndex* index) {
      std::erase_if(index->blocks[0].entries, [state](const StoredEntry& entry) { return entry.state == state; });
    };
  };
  const Case cases[] = {
      {Code::kInvalid,
       "does not have 1 of the parameters of this rank: \"p0\"; it has parameters that this rank does not use and that "
       "have the shape of a missing one: \"old\"",
       {},
       [](CheckpointIndex* index) { index->params[0].name = "old"; }},
      {Code::kInvalid, "parameter \"p0\" has shape", {}, set_shape},
      {Code::kInvalid, "group 0: parameter \"p0\" was saved at step 0 and \"p1\" at step 3", {}, add_group},
      {Code::kInvalid,
       "group 0: method is shampoo, but parameters of the group were saved with method=adam",
       {},
       set_method},
      {Code::kInvalid, "grafting is rmsprop, but parameters of the group were saved with grafting=adam",
       "grafting=rmsprop"},
      {Code::kInvalid,
       "the checkpoint has no state \"momentum\" of parameter \"p0\": the parameter was saved with momentum",
       {},
       without("momentum")},
      {Code::kInvalid,
       "the checkpoint has no state \"factor.1\" of parameter \"p0\": the parameter was saved with other values of "
       "precondition_dims, skip_dim_size or ignored_dims",
       {},
       without("factor.1")},
      {Code::kIo, "the index is malformed: it has no \"p0/0/diagonal\"", {}, without("diagonal")},
      {Code::kInvalid, "is bf16 in this optimizer and f32 in the checkpoint: set momentum_dtype=f32",
       "momentum_dtype=bf16"},
      {Code::kIo,
       "two blocks of parameter \"p0\" begin at the same element",
       {},
       [](CheckpointIndex* index) { index->blocks.push_back(index->blocks[0]); }},
      {Code::kInvalid, "blocks of this rank", "max_preconditioner_dim=3"},
      {Code::kInvalid, "the checkpoint has 8 of the 24 elements of parameter \"p0\"",
       "max_preconditioner_dim=3 on_block_mismatch=reset",
       [](CheckpointIndex* index) { index->blocks.erase(index->blocks.begin()); }}};
  for (const Case& one : cases) {
    CAPTURE(std::string(one.says));
    Matched matched(one.keys);
    one.change(&matched.index);
    CheckError(matched.Match(), one.code, one.says);
  }
}

TEST_CASE(
    "with method=muon, an error about a missing filtered_grad names adam_beta1, and an error about a missing "
    "second_moment names route") {
  // The test removes the state from parameter 1, which has one dim, so that adam updates it.
  for (const auto& [state, says] :
       {std::pair("filtered_grad", "saved with adam_beta1=0.9, but adam_beta1 is 0.9 in this optimizer"),
        std::pair("second_moment", "set route and the role of the parameter to their saved values")}) {
    CAPTURE(state);
    StepFixture from("method=muon", {{4, 6}, {5}});
    CheckpointIndex index = SavedStates(&from).index;
    for (StoredBlock& block : index.blocks) {
      if (block.param == 1) {
        std::erase_if(block.entries, [&](const StoredEntry& entry) { return entry.state == std::string_view(state); });
      }
    }
    StepFixture to("method=muon", {{4, 6}, {5}});
    Matching matching(to.states());
    CheckError(matching.Match(index), Code::kInvalid, says);
  }
}

TEST_CASE("if no key sets the dtype of a state, an error about the dtype names only computation_dtype") {
  StepFixture from("method=soap", {{4, 6}});
  CheckpointIndex index = SavedStates(&from).index;
  for (StoredEntry& entry : index.blocks[0].entries) {
    if (entry.state == "basis.0") entry.dtype = Dtype::kF64;
  }
  StepFixture to("method=soap", {{4, 6}});
  Matching matching(to.states());
  CheckError(matching.Match(index), Code::kInvalid,
             "is f32 in this optimizer and f64 in the checkpoint: set computation_dtype to the dtype in which the "
             "saved optimizer computed");
}

TEST_CASE("a load warns if hyper-parameters or the dtype of a parameter differ, and if a saved state is not loaded") {
  Matched matched("lr=0.125 momentum=0");
  matched.index.params[1].dtype = Dtype::kF64;
  CheckOk(matched.Match());
  std::string all;
  for (const std::string& warning : matched.matching.warnings()) all += warning + "\n";
  for (const char* const says : {"group 0 keeps its own hyper-parameters", "lr=0.125 (0.001)", "momentum=0 (0.5)",
                                 "parameter \"p1\" is f32 in this optimizer and f64 in the checkpoint",
                                 "the momentum of 4 blocks of the checkpoint is not loaded"}) {
    CHECK_MESSAGE(all.find(says) != std::string::npos, std::string(says), " in ", all);
  }
}

TEST_CASE(
    "with on_block_mismatch=reset, blocks that were not saved are resharded from the saved blocks that they overlap") {
  Matched matched("max_preconditioner_dim=3 on_block_mismatch=reset");
  CheckOk(matched.Match());
  CHECK(matched.matching.reset_blocks() > 0);
  CHECK(!matched.matching.resharded().empty());
  for (const Matching::ReshardedParam& resharded : matched.matching.resharded()) {
    CHECK(!resharded.sources.empty());
    for (const StoredBlock* source : resharded.sources) CHECK(source->param == resharded.stored_param);
    for (const StateEntry* state : resharded.states) CHECK(state->elementwise());
  }
}

// Adds the descriptions of an optimizer, as if `rank` had sent them. Returns the number of descriptions.
size_t AddDescriptions(int rank, StepFixture* fixture, Descriptions* descriptions) {
  std::vector<std::string> texts;
  CheckOk(DescriptionTexts(fixture->state(), 0, &texts));
  for (const std::string& text : texts) descriptions->Add(rank, text);
  return texts.size();
}

TEST_CASE("the descriptions of an optimizer contain its parameters, and the keys and steps of its groups") {
  StepFixture fixture("lr=0.5", {{2, 3}});
  CheckOk(fixture.state().WriteSteps(0, 7));
  fixture.Set("lr", 0.25);
  Descriptions descriptions;
  CHECK(AddDescriptions(0, &fixture, &descriptions) == 2);
  CheckOk(descriptions.status());
  REQUIRE(descriptions.groups().size() == 1);
  CHECK(descriptions.groups()[0].step == 7);
  CHECK(*descriptions.groups()[0].Value("lr") == "0.25");
  CHECK(descriptions.groups()[0].Value("threads") == nullptr);  // keys that do not affect results are omitted
  REQUIRE(descriptions.params().size() == 1);
  CHECK(descriptions.params()[0].name == "p0");
  CHECK(descriptions.params()[0].shape == Shape::Of({2, 3}));
}

TEST_CASE("descriptions of several ranks are merged unless a parameter differs") {
  StepFixture fixture({}, {{2, 3}});
  Descriptions same;
  for (const int rank : {0, 1}) AddDescriptions(rank, &fixture, &same);
  CheckOk(same.status());
  CHECK(same.groups().size() == 1);
  CHECK(same.params().size() == 1);

  Descriptions differ;
  AddDescriptions(0, &fixture, &differ);
  CheckOk(fixture.state().WriteSteps(0, 1));
  AddDescriptions(1, &fixture, &differ);
  CheckError(differ.status(), Code::kInvalid,
             "parameter \"p0\" is not the same on all ranks: rank 1 and a lower rank differ in its shape");
}

TEST_CASE("the step of a parameter is not taken from a rank that has no element of the parameter") {
  for (const bool empty_first : {false, true}) {
    CAPTURE(empty_first);
    Descriptions descriptions;
    for (const int rank : {0, 1}) {
      const bool empty = (rank == 0) == empty_first;
      StepFixture::Setup setup{.keys = {}, .params = StepFixture::Describe({{2, 3}})};
      setup.params[0].form = ShardForm::kFlat;
      setup.params[0].flat_count = empty ? 0 : 6;
      setup.placement.shard_world = 2;
      StepFixture fixture(setup);
      CheckOk(fixture.state().WriteSteps(0, empty ? 0 : 4));
      AddDescriptions(rank, &fixture, &descriptions);
    }
    CheckOk(descriptions.status());
    REQUIRE(descriptions.params().size() == 1);
    CHECK(descriptions.groups()[static_cast<size_t>(descriptions.params()[0].group)].step == 4);
  }
}

TEST_CASE("saving and loading need a valid stream, unique names of parameters, and a communicator of all ranks") {
  StepFixture first({}, {{2, 3}});
  StepFixture second({}, {{2, 3}});
  OptimizerState* const two[] = {&first.state(), &second.state()};
  CheckpointCall call;
  call.optimizers = first.states();
  CheckOk(CheckCall(call));
  CHECK(first.observer.calls == std::vector<std::string>{"finish"});
  call.stream = &call;
  CheckError(CheckCall(call), Code::kInvalid, "stream is not NULL");
  call.stream = nullptr;
  call.optimizers = two;
  CheckError(CheckCall(call), Code::kInvalid, "parameter \"p0\" is in two optimizers of this rank");
  call.optimizers = first.states();
  first.observer.finish = Numeric("a step failed");
  CheckError(CheckCall(call), Code::kNumeric, "a step failed");
  call.caller_status = Invalid("a caller's mistake");
  CheckError(CheckCall(call), Code::kInvalid, "a caller's mistake");

  StepFixture replica({}, {{2, 3}}, ReplicaPlacement(0, 3));
  CheckpointCall among_ranks;
  among_ranks.optimizers = replica.states();
  CheckError(CheckCall(among_ranks), Code::kInvalid, "world is NULL, but an optimizer has 3 ranks");
  const MirrorComm few(2);
  among_ranks.world = few.get();
  CheckError(CheckCall(among_ranks), Code::kInvalid, "world has 2 ranks, but an optimizer has 3");
  const MirrorComm enough(3);
  among_ranks.world = enough.get();
  CheckOk(CheckCall(among_ranks));
}

TEST_CASE(
    "a communicator that has failed, or that takes memory of a GPU although no optimizer is on a GPU, is rejected") {
  StepFixture fixture({}, {{2, 3}});
  CheckpointCall call;
  call.optimizers = fixture.states();
  CheckOk(WorldStaging().Create(call));
  const MirrorComm comm;
  call.world = comm.get();
  CheckOk(WorldStaging().Create(call));
  comm.get()->Abort(CommFailed("the network is gone"));
  CheckError(WorldStaging().Create(call), Code::kComm, "a collective or a CUDA call failed before");
  const auto on_device = MakeDeviceComm();
  call.world = on_device.get();
  CheckError(WorldStaging().Create(call), Code::kUnsupported, "world takes buffers in GPU memory");
}

}  // namespace
}  // namespace shampoo
