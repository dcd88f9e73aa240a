// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/capi/semantics/model.h"

namespace shampoo_test {
namespace {

const Keys kShardKeys = {
    {"grafting", "rmsprop"}, {"momentum", "0.5"}, {"max_preconditioner_dim", "4"}, {"epsilon", "1e-3"}};

// Steps both models. The buffer of the single parameter of `one` is the concatenation of the buffers of `many`.
void CheckSameBits(Model<double>* one, Model<double>* many) {
  std::mt19937_64 random(9);
  Fill(random, &one->w[0]);
  auto scatter = [many](const std::vector<double>& from, std::vector<std::vector<double>>* to) {
    size_t at = 0;
    for (auto& part : *to) {
      for (double& value : part) value = from[at++];
    }
    REQUIRE(at == from.size());
  };
  scatter(one->w[0], &many->w);
  for (int t = 0; t < 4; ++t) {
    Fill(random, &one->g[0]);
    scatter(one->g[0], &many->g);
    one->Step();
    many->Step();
  }
  std::vector<std::vector<double>> expected = many->w;
  scatter(one->w[0], &expected);
  for (size_t p = 0; p < expected.size(); ++p) CHECK(SameBits(expected[p], many->w[p]));
}

TEST_CASE("a stacked parameter has the bits of separate layers") {
  shampoo_param_desc stacked = Param("layers", {3, 5, 6});
  stacked.stack_dims = 1;
  Model<double> one(kShardKeys, {stacked});
  Model<double> many(kShardKeys, {Param("0", {5, 6}), Param("1", {5, 6}), Param("2", {5, 6})});
  CheckSameBits(&one, &many);
}

TEST_CASE("a flat shard has the bits of separate pieces") {
  // Elements [3, 15) of 3 x 5: the end of a row, (2), and two rows, (2, 5).
  shampoo_param_desc shard = Param("w", {3, 5});
  shard.shard_form = 1;
  shard.flat_offset = 3;
  shard.flat_count = 12;
  Model<double> one(kShardKeys, {shard});
  Model<double> many(kShardKeys, {Param("rest", {2}), Param("rows", {2, 5})});
  CheckSameBits(&one, &many);
  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  RequireOk(shampoo_state_describe(one.optimizer, one.Entry("w/0/momentum"), &entry));
  CHECK(entry.flat_offset == 3);  // of the global parameter
  RequireOk(shampoo_state_describe(one.optimizer, one.Entry("w/1/momentum"), &entry));
  CHECK(entry.flat_offset == 5);
}

TEST_CASE("a flat shard of stacked layers is divided at the borders of layers") {
  shampoo_param_desc shard = Param("w", {2, 3, 2});
  shard.stack_dims = 1;
  shard.shard_form = 1;
  shard.flat_offset = 2;
  shard.flat_count = 7;  // (2, 2) of the first layer, a row and an element of the second
  Model<double> one(kShardKeys, {shard});
  Model<double> many(kShardKeys, {Param("a", {2, 2}), Param("b", {1, 2}), Param("c", {1})});
  CheckSameBits(&one, &many);
}

TEST_CASE("a rectangle has the bits of a parameter of its shape") {
  shampoo_param_desc rectangle = Param("w", {8, 9});
  rectangle.shard_form = 2;
  rectangle.local_offset[0] = 2;
  rectangle.local_offset[1] = 3;
  rectangle.local_shape[0] = 5;
  rectangle.local_shape[1] = 6;
  Model<double> one(kShardKeys, {rectangle});
  Model<double> many(kShardKeys, {Param("w", {5, 6})});
  CheckSameBits(&one, &many);
  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  RequireOk(shampoo_state_describe(one.optimizer, one.Entry("w/0/momentum"), &entry));
  CHECK(entry.flat_offset == 2 * 9 + 3);
  RequireOk(shampoo_state_describe(one.optimizer, one.Entry("w/3/momentum"), &entry));  // rows from 4, columns from 4
  CHECK(entry.flat_offset == 6 * 9 + 7);
}

TEST_CASE("an empty shard and an empty parameter are accepted and ignored") {
  shampoo_param_desc shard = Param("w", {3, 5});
  shard.shard_form = 1;
  shard.flat_offset = 15;
  Model<double> model(kShardKeys, {shard, Param("none", {4, 0, 2}), Param("scalar", {})});
  model.g[2][0] = 1;
  model.Step();
  CHECK(model.w[2][0] != 0);
}

}  // namespace
}  // namespace shampoo_test
