// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests of checkpoints whose parameters are distributed in different ways: over groups, over several optimizers of a
// rank, and over ranks that have different parameters or the same parameters.
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/reshard/trainee.h"
#include "tests/checkpoint/reshard/world.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

using Trainees = std::vector<std::unique_ptr<Trainee>>;

RankSpec With(const std::vector<ParamSpec>& params) {
  RankSpec spec = SmallModel();
  spec.params = params;
  return spec;
}

States Merged(const Trainees& trainees) {
  States all;
  for (const auto& trainee : trainees) all.merge(StatesOf(trainee->rank));
  return all;
}

TEST_CASE("a group continues at the step of its parameters if they all have the same step") {
  const Scratch scratch;
  const std::string directory = scratch / "checkpoints";
  RankSpec two = SmallModel();
  two.groups = {two.keys};
  two.params[1].group = 1;
  Trainee saver(two);
  TrainAndSave(&saver, 2, directory);
  // Parameters at the same step can be grouped in any way.
  RankSpec other = two;
  other.params[0].group = 1;
  Trainee moved(other);
  Trainee merged(SmallModel());
  for (Trainee* const loader : {&moved, &merged}) {
    RequireLoad(&loader->rank, directory);
    CHECK(StatesOf(loader->rank) == StatesOf(saver.rank));
    CHECK(StepsOf(loader->rank, 0) == 2);
  }
  CHECK(StepsOf(moved.rank, 1) == 2);

  saver.rank.has_grad[1] = false;  // group 1 does not make step 3
  saver.Train(3, 3);
  RequireSave(&saver.rank, directory);
  Trainee same(two);
  RequireLoad(&same.rank, directory);
  CHECK(StepsOf(same.rank, 0) == 3);
  CHECK(StepsOf(same.rank, 1) == 2);
  CheckRefused(&merged.rank, directory, SHAMPOO_E_INVALID,
               {"group 0", "\"weight\" was saved at step 3 and \"bias\" at step 2", "the same step"});
  CheckRefused(&moved.rank, directory, SHAMPOO_E_INVALID, {"group 1: parameter \"weight\"", "\"bias\" at step 2"});
}

TEST_CASE("states of one optimizer can be loaded into two optimizers and back, and training stays bit-identical") {
  const Scratch scratch;
  const RankSpec all = SmallModel();
  Trainee one(all);
  TrainAndSave(&one, 3, scratch / "one");
  Trainees two;
  two.push_back(std::make_unique<Trainee>(With({all.params[2], all.params[0]})));
  two.push_back(std::make_unique<Trainee>(With({all.params[1]})));
  shampoo_optimizer* const opts[] = {two[0]->optimizer(), two[1]->optimizer()};
  for (int half = 0; half < 2; ++half) {
    CHECK(shampoo_load(&opts[half], 1, nullptr, (scratch / "one").c_str(), nullptr) == SHAMPOO_E_INVALID);
    CHECK(MissingWord(shampoo_last_error(), {"no optimizer has these parameters of the checkpoint"}) == "");
  }
  REQUIRE(shampoo_load(opts, 2, nullptr, (scratch / "one").c_str(), nullptr) == SHAMPOO_OK);
  CHECK(Merged(two) == StatesOf(one.rank));
  for (const auto& half : two) {
    half->TakeParams(one.Params());
    half->Train(4, 5);
    CHECK(StepsOf(half->rank, 0) == 5);
  }
  REQUIRE(shampoo_save(opts, 2, nullptr, (scratch / "two").c_str(), nullptr) == SHAMPOO_OK);
  one.Train(4, 5);
  Trainee back(all);
  RequireLoad(&back.rank, scratch / "two");
  CHECK(StatesOf(back.rank) == StatesOf(one.rank));
  auto params = two[0]->Params();
  params.merge(two[1]->Params());
  back.TakeParams(params);
  back.Train(6, 7);
  one.Train(6, 7);
  CHECK(back.Params() == one.Params());
}

// A job of four ranks that train a mixture of experts. Each rank has two optimizers: one for the parameters that all
// ranks share, and one for an expert. Each expert is on two ranks: expert.0 on ranks 0 and 2, and expert.1 on ranks 1
// and 3.
class Experts {
 public:
  Experts() : world(4) {
    for (int rank = 0; rank < 4; ++rank) {
      Place(With({{"shared.a", {9, 5}}, {"shared.b", {11}}}), rank, &all_, &specs_[rank], &ops_[rank]);
      Place(With({{rank % 2 == 0 ? "expert.0" : "expert.1", {6, 9}}}), rank / 2, &pairs_[rank % 2],
            &expert_specs_[rank], &expert_ops_[rank]);
    }
    OnEveryRank(4, [this](int rank) {
      shared[rank] = std::make_unique<Trainee>(specs_[rank]);
      expert[rank] = std::make_unique<Trainee>(expert_specs_[rank]);
    });
    for (int rank = 0; rank < 4; ++rank) {
      RequireOk(shared[rank]->rank);
      RequireOk(expert[rank]->rank);
      world[rank].opts = {shared[rank]->optimizer(), expert[rank]->optimizer()};
    }
    // Each rank may pass its optimizers in a different order.
    std::swap(world[2].opts[0], world[2].opts[1]);
  }
  static RankSpec InOne() {
    return With({{"expert.1", {6, 9}}, {"shared.b", {11}}, {"expert.0", {6, 9}}, {"shared.a", {9, 5}}});
  }
  void Train(int first, int last) {
    OnEveryRank(4, [&](int rank) {
      shared[rank]->Train(first, last);
      expert[rank]->Train(first, last);
    });
  }
  void CheckParams(const Trainee& one) {
    const auto expected = one.Params();
    for (int rank = 0; rank < 4; ++rank) {
      for (const auto& trainee : {&shared[rank], &expert[rank]}) {
        for (const auto& [name, values] : (*trainee)->Params()) CHECK(values == expected.at(name));
      }
    }
  }

 private:
  static void Place(const RankSpec& model, int replica, ThreadComm* comm, RankSpec* spec, shampoo_comm_ops* ops) {
    *ops = comm->OpsOf(replica);
    *spec = model;
    spec->replica_rank = replica;
    spec->replica_world = comm->world();
    spec->replica_ops = ops;
  }

  ThreadComm all_{4}, pairs_[2]{ThreadComm(2), ThreadComm(2)};
  shampoo_comm_ops ops_[4], expert_ops_[4];
  RankSpec specs_[4], expert_specs_[4];

 public:
  World world;
  std::unique_ptr<Trainee> shared[4], expert[4];
};

TEST_CASE(
    "one process can load a checkpoint of ranks with different parameters, and these ranks can load a checkpoint of "
    "one process") {
  const Scratch scratch;
  Trainee one(Experts::InOne());
  one.Train(1, 3);
  {
    Experts experts;
    experts.Train(1, 3);
    experts.CheckParams(one);
    RequireSave(&experts.world, scratch / "experts");
  }
  Trainee loader(Experts::InOne());
  RequireLoad(&loader.rank, scratch / "experts");
  CHECK(StatesOf(loader.rank) == StatesOf(one.rank));
  RequireSave(&loader.rank, scratch / "one");
  Experts experts;
  RequireLoad(&experts.world, scratch / "one");
  for (int rank = 0; rank < 4; ++rank) {
    experts.shared[rank]->TakeParams(one.Params());
    experts.expert[rank]->TakeParams(one.Params());
  }
  experts.Train(4, 6);
  one.Train(4, 6);
  experts.CheckParams(one);
}

TEST_CASE("states that are identical on all ranks are written once") {
  const Scratch scratch;
  const std::string directory = scratch / "checkpoints";
  World world(3);
  Trainees ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::make_unique<Trainee>(SmallModel()));
    ranks.back()->Train(1, 3);
    world[rank].opts = {ranks.back()->optimizer()};
  }
  RequireSave(&world, directory);
  const std::vector<std::string> names = {"checkpoint-000001.json",
                                          "checkpoint-000001.rank-00000-of-00003.safetensors"};
  CHECK(NamesIn(directory) == names);
  Trainees loaders;
  for (int rank = 0; rank < 3; ++rank) {
    loaders.push_back(std::make_unique<Trainee>(SmallModel()));
    world[rank].opts = {loaders.back()->optimizer()};
  }
  RequireLoad(&world, directory);
  for (const auto& loader : loaders) CHECK(StatesOf(loader->rank) == StatesOf(ranks[0]->rank));

  // Ranks that have the same parameter must have equal hyper-parameters and equal plans.
  REQUIRE(shampoo_optimizer_set(loaders[1]->optimizer(), 0, "lr", 0.5) == SHAMPOO_OK);
  const auto check_refused = [&](const std::vector<std::string>& words) {
    world.Save(directory);
    CheckFailed(&world, SHAMPOO_E_INVALID, words);
    CHECK(NamesIn(directory) == names);
  };
  check_refused({"parameter \"weight\" is not the same on all ranks", "rank 1", "hyper-parameters",
                 "earlier checkpoints are unchanged"});
  Trainee part(With({SmallModel().params[0]}));
  part.Train(1, 3);
  world[1].opts = {part.optimizer()};
  check_refused(
      {"blocks of parameter \"weight\" have 126 elements in total, but the parameter has 63", "separate directories"});
  // Different parameters with the same name are also rejected, because the states of one of them would be lost.
  Trainee other(SmallModel());
  other.Train(2, 4);
  RequireOk(other.rank);
  world[1].opts = {other.optimizer()};
  check_refused({"ranks 0 and 1 both have parameter \"weight\"", "give each its own name"});
}

}  // namespace
}  // namespace shampoo_test
