// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks which parameters, dtypes, keys and blocks of a checkpoint may differ from those of the optimizer that loads
// the checkpoint.
#include <doctest/doctest.h>

#include <string>

#include "tests/capi/behaviour/listener.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// An optimizer that has made three steps, and its checkpoint.
class Saved {
 public:
  explicit Saved(const RankSpec& spec) : saver(spec) { TrainAndSave(&saver, 3, path()); }
  std::string path() const { return scratch / "checkpoints"; }

  Scratch scratch;
  Trainee saver;
};

// Checks that a new optimizer rejects the checkpoint, and that an optimizer after two steps rejects it, too. Both must
// then train as if no load had been tried.
void CheckRefusal(const Saved& saved, const RankSpec& spec, const std::vector<std::string>& words) {
  for (const int steps : {0, 2}) {
    CAPTURE(steps);
    Trainee loader(spec);
    Trainee other(spec);
    loader.Train(1, steps);
    other.Train(1, steps);
    CheckRefused(&loader.rank, saved.path(), SHAMPOO_E_INVALID, words);
    CHECK(shampoo_optimizer_error(loader.optimizer()) == loader.rank.error);
    loader.Train(steps + 1, steps + 3);
    other.Train(steps + 1, steps + 3);
    CHECK(Everything(loader.rank) == Everything(other.rank));
  }
}

// Loads the checkpoint and returns the warnings.
std::vector<std::string> Load(const Saved& saved, Trainee* loader) {
  Listener log(1);
  RequireLoad(&loader->rank, saved.path());
  return log.Take();
}

TEST_CASE("parameters are matched by name and shape in any order") {
  const Saved saved(SmallModel());
  RankSpec renamed = SmallModel();
  renamed.params[0].name = "Weight";
  CheckRefusal(saved, renamed,
               {"does not have 1 of the parameters of this rank: \"Weight\"", "missing one: \"weight\"",
                "use the names that they were saved with"});
  renamed.params = {{"Weight", {9, 7}}};  // of the saved parameters, only "weight" has this shape
  CheckRefusal(saved, renamed, {"have the shape of a missing one: \"weight\""});
  RankSpec more = SmallModel();
  for (int p = 0; p < 6; ++p) more.params.push_back({"more." + std::to_string(p), {2, 2}});
  CheckRefusal(
      saved, more,
      {"does not have 6 of the parameters of this rank: \"more.0\", \"more.1\", \"more.2\", \"more.3\" and 2 more"});
  RankSpec fewer = SmallModel();
  fewer.params.resize(1);
  CheckRefusal(saved, fewer,
               {"no optimizer has these parameters of the checkpoint: ", "\"bias\"", "\"table\"", "add them"});
  RankSpec reshaped = SmallModel();
  reshaped.params[0].shape = {7, 9};
  CheckRefusal(saved, reshaped,
               {"\"weight\" has shape (7, 9) in this optimizer and (9, 7) in the checkpoint", "expected equal shapes"});

  RankSpec reversed = SmallModel();
  std::swap(reversed.params.front(), reversed.params.back());
  Trainee loader(reversed);
  CHECK(Load(saved, &loader).empty());
  CHECK(StatesOf(loader.rank) == StatesOf(saved.saver.rank));
  CHECK(StepsOf(loader.rank, 0) == 3);
}

TEST_CASE("each state must have the dtype with which it was saved") {
  const Saved saved(SmallModel());
  const std::pair<const char*, const char*> kStates[] = {{"factor_dtype", "weight/0/factor.0"},
                                                         {"inverse_dtype", "weight/0/inverse.0"},
                                                         {"filtered_grad_dtype", "weight/0/filtered_grad"},
                                                         {"momentum_dtype", "weight/0/momentum"},
                                                         {"grafting_dtype", "weight/0/grafting"}};
  for (const auto& [key, state] : kStates) {
    for (const char* const dtype : {"f64", "bf16"}) {
      CheckRefusal(saved, SmallModel({{key, dtype}}),
                   {"state \"" + std::string(state) + "\" is " + dtype + " in this optimizer and f32 in the checkpoint",
                    "set " + std::string(key) + "=f32"});
    }
  }
}

TEST_CASE("a missing state is an error, and a saved state that is not needed is skipped") {
  struct Rule {
    Keys with, without;
    std::vector<std::string> words;
    const char* state;
    const char* warning;
  };
  const Rule rules[] = {{"momentum=0.9",
                         "momentum=0",
                         {"no state \"momentum\" of parameter \"weight\"", "saved with momentum=0",
                          "momentum is 0.9 in this optimizer", "set momentum to its saved value"},
                         "momentum",
                         "momentum=0 (0.9)"},
                        {"beta1=0.8",
                         "beta1=0",
                         {"no state \"filtered_grad\" of parameter \"weight\"", "saved with beta1=0",
                          "beta1 is 0.8 in this optimizer", "set beta1 to its saved value"},
                         "filtered_grad",
                         "beta1=0 (0.8)"},
                        {"grafting=adam",
                         "grafting=sgd",
                         {"no state \"grafting\" of parameter \"weight\"", "saved with grafting=sgd",
                          "grafting is adam in this optimizer", "set grafting to its saved value"},
                         "grafting",
                         "grafting=sgd (adam)"}};
  for (const Rule& rule : rules) {
    CAPTURE(rule.state);
    CheckRefusal(Saved(SmallModel(rule.without)), SmallModel(rule.with), rule.words);
    const Saved saved(SmallModel(rule.with));
    Trainee loader(SmallModel(rule.without));
    const auto warnings = Load(saved, &loader);
    REQUIRE(warnings.size() == 2);
    CHECK(MissingWord(warnings[0], {"1 group 0 keeps its own hyper-parameters", rule.warning}) == "");
    CHECK(warnings[1] == "1 the " + std::string(rule.state) +
                             " of 10 blocks of the checkpoint is not loaded: the optimizer does not use it");
    States expected = StatesOf(saved.saver.rank);
    std::erase_if(expected, [&](const auto& entry) { return entry.first.ends_with(std::string("/") + rule.state); });
    CHECK(StatesOf(loader.rank) == expected);
    CHECK(StepsOf(loader.rank, 0) == 3);
    loader.Train(4, 5);
    CHECK_MESSAGE(loader.rank.status == SHAMPOO_OK, loader.rank.error);
  }
}

TEST_CASE("a load fails if the saved grafting state belongs to another grafting method") {
  const Saved saved(SmallModel());
  CheckRefusal(saved, SmallModel("grafting=rmsprop"),
               {"group 0", "grafting is rmsprop", "were saved with grafting=adam", "set grafting=adam"});
}

TEST_CASE("the loading optimizer keeps its hyper-parameters, and a warning lists those that differ") {
  Saved saved(SmallModel());
  REQUIRE(shampoo_optimizer_set(saved.saver.optimizer(), 0, "lr", 0.25) == SHAMPOO_OK);
  RequireSave(&saved.saver.rank, saved.path());
  // Keys such as `threads` do not change the results, so there is no warning about them.
  Trainee loader(SmallModel("lr=0.125 root_method=newton threads=2 balance=cost"));
  REQUIRE(shampoo_optimizer_set(loader.optimizer(), 0, "beta2", 0.75) == SHAMPOO_OK);
  const auto warnings = Load(saved, &loader);
  REQUIRE(warnings.size() == 1);
  const std::string listed = warnings[0].substr(warnings[0].find("in parentheses): "));
  CHECK(listed == "in parentheses): lr=0.125 (0.25), beta2=0.75 (0.99), root_method=newton (eigen)");
  double lr = 0;
  REQUIRE(shampoo_optimizer_get(loader.optimizer(), 0, "lr", &lr) == SHAMPOO_OK);
  CHECK(lr == 0.125);
  CHECK(StatesOf(loader.rank) == StatesOf(saved.saver.rank));

  Trainee equal(SmallModel());
  REQUIRE(shampoo_optimizer_set(equal.optimizer(), 0, "lr", 0.25) == SHAMPOO_OK);
  CHECK(Load(saved, &equal).empty());
}

TEST_CASE("if the checkpoint lacks blocks, a load fails and names them unless on_block_mismatch=reset is set") {
  const Saved saved(SmallModel());
  // The weight, of shape (9, 7), now has 4 blocks instead of 6. The bias still has 2 blocks, of other sizes. The table
  // has one block of shape (3, 5) instead of blocks of shapes (3, 4) and (3, 1).
  const Keys other = "max_preconditioner_dim=5";
  CheckRefusal(
      saved, SmallModel(other),
      {"does not have 7 of 7 blocks of this rank: \"weight/0 (5, 5) at element 0\", \"weight/1 (5, 2) at element 5\", ",
       " and 3 more", "max_preconditioner_dim", "on_block_mismatch=reset"});
  Trainee fresh(SmallModel(other));
  Trainee loader(SmallModel(other + "on_block_mismatch=reset"));
  loader.Train(1, 2);
  const auto warnings = Load(saved, &loader);
  REQUIRE(warnings.size() == 2);
  CHECK(MissingWord(warnings[0],
                    {"1 on_block_mismatch=reset", "the checkpoint does not have 7 of 7 blocks of this rank"}) == "");
  const States states = StatesOf(loader.rank);
  for (const auto& [key, bytes] : StatesOf(fresh.rank)) {
    CAPTURE(key);
    const bool elementwise = !Has(key, "factor.") && !Has(key, "inverse.") && !Has(key, "diagonal");
    CHECK((states.at(key) == bytes) == !elementwise);
  }
  // The checkpoint lacks only the block of parameter "table", because this parameter was saved without merged dims.
  RankSpec longer = SmallModel("max_preconditioner_dim=16");
  longer.params = {{"bias", {7}}, {"table", {3, 5}}};
  RankSpec unmerged = longer;
  unmerged.keys.emplace_back("use_merge_dims", "false");
  const Saved saved_unmerged(unmerged);
  CheckRefusal(saved_unmerged, longer,
               {"does not have 1 of 2 blocks of this rank: \"table/0 (15) at element 0\"", "use_merge_dims"});
}

TEST_CASE(
    "a missing factor matrix is an error unless on_block_mismatch=reset is set, and a saved factor matrix that is not "
    "needed is skipped") {
  const Keys with = "grafting=adam precondition_1d=true";
  const Keys without = "grafting=adam precondition_1d=false";
  const Saved saved(SmallModel(without));
  CheckRefusal(
      saved, SmallModel(with),
      {"\"bias/0 (4) at element 0 (saved without factor matrices)\"", "precondition_1d", "on_block_mismatch=reset"});
  Trainee fresh(SmallModel(with));
  Trainee loader(SmallModel(with + "on_block_mismatch=reset"));
  (void)Load(saved, &loader);
  const States states = StatesOf(loader.rank);
  const States of_fresh = StatesOf(fresh.rank);
  for (const auto& [key, bytes] : StatesOf(saved.saver.rank)) CHECK_MESSAGE(states.at(key) == bytes, key);
  for (const char* const key : {"bias/0/factor.0", "bias/0/inverse.0", "bias/0/diagonal"}) {
    CHECK_MESSAGE(states.at(key) == of_fresh.at(key), key);
  }

  const Saved more(SmallModel(with));
  Trainee fewer(SmallModel(without));
  bool is_reported = false;
  for (const std::string& warning : Load(more, &fewer)) {
    is_reported = is_reported || Has(warning, "the factor matrix of 2 blocks of the checkpoint is not loaded");
  }
  CHECK(is_reported);
  for (const auto& [key, bytes] : StatesOf(fewer.rank)) CHECK_MESSAGE(StatesOf(more.saver.rank).at(key) == bytes, key);
}

TEST_CASE("a checkpoint with only one shard of a parameter can only be loaded into the same shard") {
  RankSpec half = SmallModel();
  half.params = {{"weight", {9, 7}}};
  RankSpec whole = half;
  whole.keys.emplace_back("on_block_mismatch", "reset");
  half.params[0].CutFlat(10, 30);
  const Saved saved(half);
  CheckRefusal(saved, whole, {"the checkpoint has 30 of the 63 elements of parameter \"weight\"", "the same shards"});
  Trainee loader(half);
  CHECK(Load(saved, &loader).empty());
  CHECK(StatesOf(loader.rank) == StatesOf(saved.saver.rank));
}

TEST_CASE("the dtype of a parameter may change because only the dtypes of states matter") {
  const Saved saved(SmallModel());
  RankSpec narrow = SmallModel();
  narrow.params[1].dtype = SHAMPOO_BF16;
  Trainee loader(narrow);
  const auto warnings = Load(saved, &loader);
  REQUIRE(warnings.size() == 1);
  CHECK(MissingWord(warnings[0], {"1 parameter \"bias\" is bf16 in this optimizer and f32 in the checkpoint"}) == "");
}

}  // namespace
}  // namespace shampoo_test
