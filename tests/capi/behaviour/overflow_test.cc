// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of steps whose gradient is finite and not large, but whose new parameter or momentum would not be finite.
#include <cfenv>
#include <limits>

#include "tests/capi/behaviour/host.h"
#include "tests/capi/behaviour/listener.h"
#include "tests/capi/behaviour/overflow_cases.h"
#include "tests/capi/behaviour/tensor_reference.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

double LimitOf(int32_t dtype) {
  return dtype == SHAMPOO_F64 ? std::numeric_limits<double>::max() : FormatOf(dtype).largest;
}

// A host with two parameters of one block each: "bad" has values of an OverflowCase, and "sound" has ordinary values.
struct Overflowing : Host {
  Overflowing(const OverflowCase& one, const Keys& more, int32_t dtype)
      : Host("lr=1" + more + one.keys, {Param("bad", {6, 5}, dtype), Param("sound", {5}, dtype)}, 2) {
    std::mt19937_64 random(1);
    Fill(random);
    FillGradients(random);
    Array& w = tensors[0].w;
    for (size_t i = 0; i < w.size(); ++i) w.Set(i, one.param);
    if (!one.has_momentum) return;
    Array m = Read("bad/0/momentum");
    for (size_t i = 0; i < m.size(); ++i) m.Set(i, one.momentum);
    Write("bad/0/momentum", m);
  }
};

TEST_CASE("a block whose new value would not be finite is unchanged, counted, and reported by the next step") {
  const Listener listener(1);
  for (const int32_t dtype : {SHAMPOO_F32, SHAMPOO_F64}) {
    for (const OverflowCase& one : OverflowCases(LimitOf(dtype))) {
      for (const char* output : {"parameters", "updates"}) {
        CAPTURE_ALL(dtype, one.what, output);
        Overflowing host(one, {{"output", output}}, dtype);
        const bool updates = output == std::string("updates");
        for (Host::Tensors& tensor : host.tensors) tensor.separate = updates;
        const Array before = host.tensors[0].w;
        const Array sound = host.tensors[1].w;
        const Array momentum = one.has_momentum ? host.Read("bad/0/momentum") : Array();
        host.Bind();
        RequireOk(host.TryStep());
        CHECK(host.Stat("nonfinite_blocks") == 1);
        CHECK(host.tensors[0].w == before);
        if (one.has_momentum) CHECK(host.Read("bad/0/momentum") == momentum);
        if (updates) CHECK(host.tensors[0].out == Array(dtype, before.size()));
        CHECK_FALSE((updates ? host.tensors[1].out : host.tensors[1].w) == sound);
        host.CheckStepFails(SHAMPOO_E_NUMERIC, {"direction of block bad/0"});
      }
    }
  }
}

TEST_CASE("a parameter at the largest number is updated only if its sum with the update rounds to a finite number") {
  struct Update {
    int32_t dtype;
    double value;
    int rounding;
    bool moves;
  };
  // Half a unit in the last place of the largest number is 2^103 in float32 and 2^970 in float64.
  for (const Update& update :
       {Update{SHAMPOO_F32, 0x1p+103, FE_TONEAREST, false}, Update{SHAMPOO_F32, 0x1p+102, FE_TONEAREST, true},
        Update{SHAMPOO_F32, 1, FE_TONEAREST, true}, Update{SHAMPOO_F32, 1, FE_UPWARD, false},
        Update{SHAMPOO_F64, 0x1p+970, FE_TONEAREST, false}, Update{SHAMPOO_F64, 0x1p+968, FE_TONEAREST, true},
        Update{SHAMPOO_F64, 1, FE_TONEAREST, true}, Update{SHAMPOO_F64, 1, FE_UPWARD, false}}) {
    CAPTURE_ALL(update.dtype, update.value, update.rounding);
    const double limit = LimitOf(update.dtype);
    Host host({{"grafting", "sgd"}, {"beta1", "0"}, {"start_preconditioning_step", "100"}, {"lr", Text(update.value)}},
              {Param("w", {3, 2}, update.dtype)});
    for (size_t i = 0; i < 6; ++i) {
      host.tensors[0].w.Set(i, i == 4 ? limit : 0);
      host.tensors[0].g.Set(i, -1);
    }
    host.Bind();
    std::fesetround(update.rounding);
    const shampoo_status status = shampoo_optimizer_step(host.optimizer, nullptr);
    std::fesetround(FE_TONEAREST);
    RequireOk(status);
    CHECK(host.Stat("nonfinite_blocks") == (update.moves ? 0 : 1));
    for (size_t i = 0; i < 6; ++i) {
      CHECK(host.tensors[0].w.Get(i) == (i == 4 ? limit : update.moves ? update.value : 0));
    }
  }
}

TEST_CASE(
    "without weight decay, an infinite or NaN element of a parameter does not prevent updates of other elements of its "
    "block") {
  for (const Keys& keys : {Keys{}, Keys("momentum=0.9"), Keys("momentum=0.9 use_nesterov=true")}) {
    Host host("weight_decay=0" + keys, {Param("w", {3, 2})});
    std::mt19937_64 random = host.FillFrom(1);
    host.FillGradients(random);
    host.tensors[0].w.Set(1, INFINITY);
    host.tensors[0].w.Set(2, NAN);
    const Array before = host.tensors[0].w;
    for (int step = 0; step < 2; ++step) host.Step();
    CHECK(host.Stat("nonfinite_blocks") == 0);
    CHECK(host.tensors[0].w.Get(0) != before.Get(0));
    CHECK(host.tensors[0].w.Get(1) == INFINITY);
    CHECK(std::isnan(host.tensors[0].w.Get(2)));
  }
}

TEST_CASE("a float64 parameter beyond the range of float32 is unchanged when steps compute in float32") {
  const Listener listener(1);
  Host host(Keys("computation_dtype=f32 on_nonfinite=skip_block"), {Param("w", {3, 2}, SHAMPOO_F64)});
  std::mt19937_64 random = host.FillFrom(1);
  host.FillGradients(random);
  host.tensors[0].w.Set(3, -1e300);
  const Array before = host.tensors[0].w;
  host.Step();
  CHECK(host.Stat("nonfinite_blocks") == 1);
  CHECK(host.tensors[0].w == before);
}

TEST_CASE("no successful step produces a number that is not finite, for parameters and momentum of any magnitude") {
  const Listener listener(1);
  std::mt19937_64 random(20);
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  int moved = 0;
  int skipped = 0;
  for (int run = 0; run < 3000; ++run) {
    CAPTURE(run);
    const int32_t dtype = kFloatDtypes[random() % 4];
    const double limit = LimitOf(dtype);
    // Returns limit^x, which is halved in two of three calls. x is in [0, 0.1] or, equally often, in [0.9, 1].
    const auto size = [&] {
      const double fraction = static_cast<double>(random() % 1000) / 1000;
      return std::pow(limit, random() % 2 == 0 ? fraction * 0.1 : 1 - fraction * 0.1) * (random() % 3 == 0 ? 1 : 0.5);
    };
    const bool updates = random() % 2 == 0;
    const Keys keys = {{"lr", Text(random() % 2 == 0 ? 1 : std::sqrt(size()))},
                       {"weight_decay", random() % 2 == 0 ? "0" : Text(size())},
                       {"momentum", pick({"0", "0.5", "0.99"})},
                       {"use_nesterov", pick({"false", "true"})},
                       {"grafting", pick({"none", "sgd", "adam"})},
                       {"output", updates ? "updates" : "parameters"},
                       {"on_nonfinite", "skip_block"}};
    Overflowing host({"", {}, 0}, keys, dtype);
    for (Host::Tensors& tensor : host.tensors) tensor.separate = updates;
    const auto fill = [&](Array* values) {
      const double largest = size();
      for (size_t i = 0; i < values->size(); ++i) {
        values->Set(i, (random() % 2 == 0 ? 1 : -1) * largest / static_cast<double>(1 + i % 4));
      }
    };
    fill(&host.tensors[0].w);
    if (keys[2].second != "0") {
      Array m = host.Read("bad/0/momentum");
      fill(&m);
      host.Write("bad/0/momentum", m);
    }
    REQUIRE(host.IsFinite());
    host.Bind();
    const int mode = random() % 4 == 0 ? FE_UPWARD : random() % 4 == 0 ? FE_DOWNWARD : FE_TONEAREST;
    std::fesetround(mode);
    const shampoo_status status = shampoo_optimizer_step(host.optimizer, nullptr);
    std::fesetround(FE_TONEAREST);
    CHECK_MESSAGE(status == SHAMPOO_OK, shampoo_last_error());
    REQUIRE(host.IsFinite());
    ++(host.Stat("nonfinite_blocks") == 0 ? moved : skipped);
  }
  CHECK(moved > 300);
  CHECK(skipped > 300);
}

}  // namespace
}  // namespace shampoo_test
