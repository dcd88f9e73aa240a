// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests steps in which the gradient is finite, but the new parameter or the new momentum would not be finite.
#include <cfloat>
#include <cmath>

#include "tests/capi/behaviour/overflow_cases.h"
#include "tests/cuda/contract/pair.h"
#include "tests/cuda/tools/device_ranks.h"

namespace shampoo_test {
namespace {

ModelSpec OverflowSpec(const OverflowCase& one, const Keys& more, int32_t dtype) {
  return {.keys = Keys("lr=1 use_merge_dims=false epsilon=0.1") + more + one.keys,
          .params = {{{6, 5}, dtype, dtype, dtype}, {{5}, dtype, dtype, dtype}}};
}

void SetValues(const OverflowCase& one, Model* model) {
  model->SetParam(0, std::vector<double>(30, one.param));
  const std::vector<std::string> keys = model->Keys();  // only the owner of p0/0 has the momentum
  if (!one.has_momentum || std::find(keys.begin(), keys.end(), "p0/0/momentum") == keys.end()) return;
  model->SetState("p0/0/momentum", std::vector<double>(30, one.momentum));
}

// Returns whether all values equal `value`. If `value` is NaN, returns whether all values are NaN.
bool Holds(const std::vector<double>& values, double value) {
  return std::all_of(values.begin(), values.end(),
                     [value](double v) { return v == value || (std::isnan(v) && std::isnan(value)); });
}

TEST_CASE("an update whose result would not be finite is skipped as on the CPU and the next step reports it") {
  for (const int32_t dtype : {SHAMPOO_F32, SHAMPOO_F64}) {
    const double limit = dtype == SHAMPOO_F32 ? static_cast<double>(FLT_MAX) : DBL_MAX;
    for (const OverflowCase& one : OverflowCases(limit)) {
      for (const bool updates : {false, true}) {
        INFO(one.what, ", dtype ", dtype, ", updates ", updates);
        const StageWithStream stream;
        ModelSpec spec = OverflowSpec(one, {{"output", updates ? "updates" : "parameters"}}, dtype);
        for (ParamSpec& param : spec.params) param.in_place = !updates;
        Pair pair(spec, stream);
        pair.Each([&](Model& model) {
          SetValues(one, &model);
          model.FillGradients(1);
        });
        const std::vector<double> sound = pair.device.ParamValues(1);
        pair.Each([](Model& model) { model.Step(); });
        pair.device.MustSucceed();
        pair.Each([&](Model& model) {
          CHECK(Holds(model.ParamValues(0),
                      static_cast<double>(dtype == SHAMPOO_F32 ? static_cast<float>(one.param) : one.param)));
          if (updates) CHECK(Holds(model.OutValues(0), 0));
          CHECK(model.Stat("nonfinite_blocks") == 1);
        });
        CHECK(pair.DifferingCounters() == "");
        if (!updates) CHECK(pair.device.ParamValues(1) != sound);
        CHECK(Distance(pair.device.OutValues(1), pair.host.OutValues(1)) < 1e-4);

        pair.CheckBothReject(SHAMPOO_E_NUMERIC);
      }
    }
  }
}

TEST_CASE("a block with an infinite parameter and no weight decay is updated as on the CPU") {
  for (const char* momentum : {"0", "0.9"}) {
    const StageWithStream stream;
    ModelSpec spec{.keys = {{"momentum", momentum}, {"epsilon", "0.1"}}, .params = {{{3, 2}}}};
    Pair pair(spec, stream);
    pair.Each([](Model& model) { model.SetParam(0, {1, kInfinity, 1, 1, 1, 1}); });
    pair.Train(1, 2);
    pair.device.MustSucceed();
    CHECK(pair.device.Stat("nonfinite_blocks") == 0);
    CHECK(pair.device.ParamValues(0)[1] == kInfinity);
    CHECK(pair.device.ParamValues(0)[0] != 1);
    CHECK(pair.DifferingValues(1e-4) == "");
  }
}

TEST_CASE("near the limit at which a parameter would round to infinity, a block is updated or skipped as on the CPU") {
  struct Update {
    int32_t dtype;
    double value;
    bool moves;
  };
  // FLT_MAX + 2^103 is halfway between FLT_MAX and 2^128, and DBL_MAX + 2^970 is halfway between DBL_MAX and 2^1024.
  // Both sums round to infinity. FLT_MAX + 2^102 rounds to FLT_MAX, and DBL_MAX + 2^968 rounds to DBL_MAX.
  for (const Update& update : {Update{SHAMPOO_F32, 0x1p+103, false}, Update{SHAMPOO_F32, 0x1p+102, true},
                               Update{SHAMPOO_F64, 0x1p+970, false}, Update{SHAMPOO_F64, 0x1p+968, true}}) {
    INFO("dtype ", update.dtype, ", value ", update.value);
    const double limit = update.dtype == SHAMPOO_F32 ? static_cast<double>(FLT_MAX) : DBL_MAX;
    const StageWithStream stream;
    ModelSpec spec{.keys = {{"grafting", "sgd"},
                            {"beta1", "0"},
                            {"start_preconditioning_step", "100"},
                            {"lr", std::to_string(update.value)}},
                   .params = {{{3, 2}, update.dtype, update.dtype, update.dtype}}};
    Pair pair(spec, stream);
    pair.Each([&](Model& model) {
      model.SetParam(0, {0, 0, 0, limit, 0, 0});
      model.SetGradient(0, std::vector<double>(6, -1));
      model.Step();
    });
    pair.device.MustSucceed();
    CHECK(pair.host.Stat("nonfinite_blocks") == (update.moves ? 0 : 1));
    CHECK(pair.DifferingCounters() == "");
    pair.Each([&](Model& model) {
      CHECK(model.ParamValues(0)[3] == limit);
      CHECK(model.ParamValues(0)[0] == (update.moves ? update.value : 0));
    });
  }
}

TEST_CASE("all ranks skip an update whose result would not be finite") {
  for (const OverflowCase& one : OverflowCases(FLT_MAX)) {
    for (const char* communicate : {"updates", "params"}) {
      INFO(one.what, ", communicate ", std::string(communicate));
      const Stage stage;
      DeviceRanks ranks(OverflowSpec(one, {{"communicate", communicate}}, SHAMPOO_F32), 2);
      ranks.FillGradients(1);
      ranks.OnEvery([&](int, Model* model) {
        SetValues(one, model);
        return SHAMPOO_OK;
      });
      ranks.Step();
      ranks.Status();
      for (const Model* model : ranks.models()) {
        CHECK(Holds(model->ParamValues(0), static_cast<double>(static_cast<float>(one.param))));
        CHECK(model->Stat("nonfinite_blocks") == 1);
      }
      ranks.CheckStep(SHAMPOO_E_NUMERIC, {"the direction of block p0/0 was not finite"});
    }
  }
}

TEST_CASE("an update is skipped if rounding the update to the communication dtype makes the parameter infinite") {
  // The update 0x1.018p+120 is rounded to 0x1.02p+120 in bfloat16. The sum of the rounded update and `start` overflows.
  const double start = static_cast<double>(FLT_MAX - 0x1.018p+120F);
  const Stage stage;
  ModelSpec spec{.keys = {{"communication_dtype", "bf16"},
                          {"grafting", "sgd"},
                          {"start_preconditioning_step", "100"},
                          {"beta1", "0"},
                          {"lr", std::to_string(0x1.018p+120)}},
                 .params = {{{4}}}};
  DeviceRanks ranks(spec, 2);
  ranks.OnEvery([&](int, Model* model) {
    model->SetParam(0, {0, start, 0, 0});
    model->SetGradient(0, std::vector<double>(4, -1));
    return SHAMPOO_OK;
  });
  ranks.Step();
  ranks.Status();
  for (const Model* model : ranks.models()) {
    CHECK(model->ParamValues(0) == std::vector<double>{0, start, 0, 0});
    CHECK(model->Stat("nonfinite_blocks") == 1);
  }
}

}  // namespace
}  // namespace shampoo_test
