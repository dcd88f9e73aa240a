// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/reshard/trainee.h"

#include <functional>
#include <random>

#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

void FillByName(const std::string& name, uint64_t seed, std::vector<float>* values) {
  std::mt19937_64 random(seed * 1000003 + std::hash<std::string>()(name));
  std::normal_distribution<float> normal;
  for (float& value : *values) value = normal(random);
}

}  // namespace

RankSpec SmallModel(const Keys& more) {
  return {.keys = "max_preconditioner_dim=4 grafting=adam momentum=0.9 precondition_frequency=2 beta2=0.99" + more,
          .params = {{"weight", {9, 7}}, {"bias", {7}}, {"table", {3, 5}}}};
}

Trainee::Trainee(const RankSpec& made_from) : spec(made_from), rank(made_from) {
  for (size_t p = 0; p < spec.params.size(); ++p) FillByName(spec.params[p].name, 0, &rank.w[p]);
}

void Trainee::Train(int first, int last) {
  for (int t = first; t <= last; ++t) {
    for (size_t p = 0; p < spec.params.size(); ++p) {
      FillByName(spec.params[p].name, static_cast<uint64_t>(t), &rank.g[p]);
    }
    rank.Step();
    if (rank.status != SHAMPOO_OK) return;
  }
}

std::map<std::string, std::vector<float>> Trainee::Params() const {
  std::map<std::string, std::vector<float>> params;
  for (size_t p = 0; p < spec.params.size(); ++p) params[spec.params[p].name] = rank.w[p];
  return params;
}

void Trainee::TakeParams(const std::map<std::string, std::vector<float>>& params) {
  for (size_t p = 0; p < spec.params.size(); ++p) rank.w[p] = params.at(spec.params[p].name);
}

void TrainAndSave(Trainee* saver, int steps, const std::string& path) {
  saver->Train(1, steps);
  RequireOk(saver->rank);
  RequireSave(&saver->rank, path);
}

States StatesOf(const Rank& rank) {
  States states;
  for (const StateEntry& entry : EntriesOf(rank)) {
    if (std::string(entry.key).ends_with("/step")) continue;  // a step counter, which belongs to a group
    states[entry.key] = ReadBytes(rank, entry);
    REQUIRE(!states[entry.key].empty());
  }
  return states;
}

void CheckRefused(Rank* rank, const std::string& path, shampoo_status status, const std::vector<std::string>& words) {
  const auto before = Everything(*rank);
  rank->Load(path);
  CHECK(rank->status == status);
  CHECK(MissingWord(rank->error, words) == "");
  CHECK(Everything(*rank) == before);
}

std::string MissingWord(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (text.find(word) == std::string::npos) return "\"" + word + "\" is not in: " + text;
  }
  return "";
}

}  // namespace shampoo_test
