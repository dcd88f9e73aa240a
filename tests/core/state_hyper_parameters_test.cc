// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "core/state/hyper_parameters.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

// The hyper-parameters of two groups, each of which has one matrix. `keys` are the keys of the first group, and
// `second` are those of the second group.
struct TwoGroups {
  explicit TwoGroups(const OptionKeys& keys = {}, const OptionKeys& second = {}, size_t scalar_alignment = 1)
      : fixture(StepFixture::TwoGroups(keys, second, {{2, 3}, {2, 3}})), values(fixture.plan(), scalar_alignment) {}

  Status Set(const char* key, double value, int group = 0) {
    return values.Set(group, key, value, &roots_depend_on_it);
  }
  Status Bind(const char* key, const float* value, int group = 0) {
    return values.Bind(group, key, static_cast<int>(Dtype::kF32), value);
  }
  Status Bind(const char* key, const double* value, int group = 0) {
    return values.Bind(group, key, static_cast<int>(Dtype::kF64), value);
  }
  Status Unbind(const char* key, int group = 0) { return values.Bind(group, key, 0, nullptr); }
  double Get(const char* key, int group = 0) const {
    double value = -1;
    CheckOk(values.Get(group, key, &value));
    return value;
  }

  StepFixture fixture;
  HyperParameters values;
  bool roots_depend_on_it = false;
};

TEST_CASE("Set changes a hyper-parameter of one group and of no other group") {
  TwoGroups groups("lr=0.5", "lr=0.25");
  CheckOk(groups.Set("lr", 2, 1));
  CHECK(groups.Get("lr", 0) == 0.5);
  CHECK(groups.Get("lr", 1) == 2);
  CHECK(groups.values.settings(1).lr == 2);
  CHECK(groups.values.InForce(1).lr == 2);
}

TEST_CASE("setting beta2 or an epsilon reports that inverse roots depend on the key, unless the value stays the same") {
  TwoGroups groups("beta2=0.5 root_relative_epsilon=0.5");
  struct Case {
    const char* key;
    double value;
    bool depends;
  };
  for (const Case& one : {Case{"beta2", 0.5, false}, Case{"beta2", 0.75, true}, Case{"beta2", 0.75, false},
                          Case{"root_relative_epsilon", 0.25, true}, Case{"root_relative_epsilon", 0.25, false},
                          Case{"lr", 9, false}, Case{"weight_decay", 1, false}}) {
    CAPTURE(std::string(one.key));
    CheckOk(groups.Set(one.key, one.value));
    CHECK(groups.roots_depend_on_it == one.depends);
  }
  TwoGroups absolute("root_relative_epsilon=0 epsilon=1e-3");
  CheckOk(absolute.Set("epsilon", 1e-4));
  CHECK(absolute.roots_depend_on_it);
}

TEST_CASE("a value that cannot be set is an error that names the key, and changes nothing") {
  TwoGroups groups("root_relative_epsilon=0.5 grafting=adagrad beta1=0");
  struct Case {
    const char* key;
    double value;
    Code code;
    const char* says;
  };
  const uint64_t before = groups.values.Hash(true);
  for (const Case& one :
       {Case{nullptr, 1, Code::kInvalid, "key is NULL: expected one of lr, beta1"},
        Case{"no_key", 1, Code::kInvalid, "key \"no_key\" does not exist: expected one of lr"},
        Case{"threads", 1, Code::kInvalid, "key \"threads\" is fixed once the optimizer is made"},
        Case{"lr", -1, Code::kInvalid, "key lr: the value -1 is not allowed"},
        Case{"lr", 1e39, Code::kInvalid, "computation_dtype=f32"},
        Case{"gradient_scale", 1e-60, Code::kInvalid, "computation_dtype=f32"},
        Case{"beta1", 0.5, Code::kState, "beta1 was 0 when the plan was made"},
        Case{"momentum", 0.5, Code::kState, "momentum was 0 when the plan was made"},
        Case{"epsilon", 0.5, Code::kInvalid,
             "not allowed while root_relative_epsilon is in use: expected 0; to use epsilon instead, make a new plan"},
        Case{"root_relative_epsilon", 0, Code::kInvalid,
             "not allowed while root_relative_epsilon is in use: expected > 0"},
        Case{"grafting_beta2", 0.5, Code::kInvalid, "not allowed with grafting=adagrad"}}) {
    groups.roots_depend_on_it = true;
    CheckError(groups.Set(one.key, one.value), one.code, one.says);
    CHECK(!groups.roots_depend_on_it);
  }
  CheckError(groups.Set("lr", 1, 2), Code::kInvalid, "group is 2: expected 0 to 1");
  CheckError(groups.Set("lr", 1, -1), Code::kInvalid, "group is -1");
  CHECK(groups.values.Hash(true) == before);
}

TEST_CASE("a key whose state exists can be set to 0 and then to another value") {
  TwoGroups groups("momentum=0.5");
  CheckOk(groups.Set("momentum", 0));
  CheckOk(groups.Set("momentum", 0.9));
  CHECK(groups.Get("momentum") == 0.9);
}

TEST_CASE("Set rejects a beta2 with which rounding to bfloat16 would undo each decay of a factor matrix") {
  TwoGroups groups("factor_dtype=bf16 beta2=0.5");
  CheckError(groups.Set("beta2", 0.9999), Code::kInvalid, "rounding would undo every decay of ");
  CHECK(groups.Get("beta2") == 0.5);
}

TEST_CASE("epsilon can be set only to 0 while roots are pseudo-inverses") {
  TwoGroups groups("root_rank_handling=pseudo_inverse root_relative_epsilon=0");
  CheckError(groups.Set("epsilon", 1), Code::kInvalid, "while root_rank_handling=pseudo_inverse is in use");
  CheckOk(groups.Set("epsilon", 0));
}

TEST_CASE("Get returns the values of keys that are real numbers, integers or flags, and rejects all other keys") {
  const TwoGroups groups("precondition_frequency=7 use_nesterov=true checkpoint_keep=5");
  CHECK(groups.Get("precondition_frequency") == 7);
  CHECK(groups.Get("use_nesterov") == 1);
  CHECK(groups.Get("threads") == 1);
  CHECK(groups.Get("checkpoint_keep", 1) == 5);  // a key of the whole optimizer
  double value = 0;
  CheckError(groups.values.Get(0, nullptr, &value), Code::kInvalid, "key is NULL");
  CheckError(groups.values.Get(2, "lr", &value), Code::kInvalid, "group is 2");
  CheckError(groups.values.Get(0, "no_key", &value), Code::kInvalid, "there is no key \"no_key\"");
  CheckError(groups.values.Get(0, "grafting", &value), Code::kInvalid, "key grafting is of type");
  CheckError(groups.values.Get(0, "root_rank_rtol", &value), Code::kInvalid, "key root_rank_rtol is auto");
  CheckError(groups.values.Get(0, "shampoo_beta", &value), Code::kInvalid, "method shampoo does not read the key");
}

TEST_CASE("the value in force is that of a bound scalar, until the scalar is unbound") {
  TwoGroups groups("lr=0.5 gradient_scale=2");
  float lr = 3;
  double scale = 4;
  CheckOk(groups.Bind("lr", &lr));
  CheckOk(groups.Bind("gradient_scale", &scale));
  CHECK(groups.values.InForce(0).lr == 3);
  CHECK(groups.values.InForce(0).gradient_scale == 4);
  lr = 6;
  CHECK(groups.values.InForce(0).lr == 6);
  CHECK(groups.Get("lr") == 0.5);  // no step has used the scalar yet
  CheckOk(groups.Unbind("lr"));
  CHECK(groups.values.InForce(0).lr == 0.5);
}

TEST_CASE("Bind rejects keys that cannot be bound, invalid dtypes and, on a device, addresses that are not aligned") {
  TwoGroups groups({}, {}, sizeof(double));
  alignas(double) char memory[16] = {};
  const int f32 = static_cast<int>(Dtype::kF32);
  CheckError(groups.values.Bind(0, nullptr, f32, memory), Code::kInvalid, "key is NULL: expected lr, beta1");
  CheckError(groups.values.Bind(0, "beta2", f32, memory), Code::kInvalid,
             "key is \"beta2\": expected lr, beta1, weight_decay or gradient_scale");
  CheckError(groups.values.Bind(5, "lr", f32, memory), Code::kInvalid, "group is 5");
  CheckError(groups.values.Bind(0, "lr", 99, memory), Code::kInvalid, "dtype is 99: expected SHAMPOO_F32");
  CheckError(groups.values.Bind(0, "lr", f32, memory + 2), Code::kInvalid,
             "expected an address that is a multiple of 4");
  CheckError(groups.values.Bind(0, "lr", static_cast<int>(Dtype::kF64), memory + 4), Code::kInvalid,
             "expected an address that is a multiple of 8");
  CHECK(groups.values.bound(0)[0].value == nullptr);
  TwoGroups without("beta1=0");
  CheckError(without.values.Bind(0, "beta1", f32, memory), Code::kState,
             "key beta1 was 0 when the plan was made, so there is no state for it");
  CheckOk(without.values.Bind(0, "beta1", f32, nullptr));
  CheckOk(TwoGroups().values.Bind(0, "lr", f32, memory + 1));  // the host copies the bytes, so alignment is not needed
}

TEST_CASE("a bound scalar with an invalid value is an error that names its group") {
  TwoGroups groups;
  float lr = 1;
  float scale = 1;
  CheckOk(groups.Bind("lr", &lr, 1));
  CheckOk(groups.Bind("gradient_scale", &scale, 1));
  CheckOk(groups.values.CheckBoundScalars());
  lr = -1;
  CheckError(groups.values.CheckBoundScalars(), Code::kInvalid, "the scalar bound to group 1: key lr: the value -1");
  CHECK(groups.values.RejectScalar(1, "lr", -1).message() == groups.values.CheckBoundScalars().message());
  lr = 1;
  scale = std::numeric_limits<float>::infinity();
  CheckError(groups.values.CheckBoundScalars(), Code::kInvalid, "the scalar bound to group 1: key gradient_scale");
  CheckError(groups.values.RejectScalar(0, "lr", 1), Code::kInternal, "the scalar bound to group 0");
}

TEST_CASE("the values that StoreBoundScalars stores are kept after the scalars are unbound") {
  TwoGroups groups;
  float lr = 3;
  float scale = 4;
  CheckOk(groups.Bind("lr", &lr));
  CheckOk(groups.Bind("gradient_scale", &scale));
  groups.values.StoreBoundScalars();
  CheckOk(groups.Unbind("lr"));
  CheckOk(groups.Unbind("gradient_scale"));
  CHECK(groups.Get("lr") == 3);
  CHECK(groups.Get("gradient_scale") == 4);
}

TEST_CASE(
    "the hash of hyper-parameters depends on every changeable value, and on bound scalars if Hash may read them") {
  TwoGroups groups("momentum=0.5");
  const uint64_t start = groups.values.Hash(true);
  CHECK(groups.values.Hash(false) == start);
  CHECK(TwoGroups("momentum=0.5").values.Hash(true) == start);
  for (const int group : {0, 1}) {
    for (const char* const key : {"lr", "beta1", "beta2", "weight_decay", "gradient_scale", "root_relative_epsilon"}) {
      CAPTURE(std::string(key));
      const double before = groups.Get(key, group);
      CheckOk(groups.Set(key, before / 2 + 0.125, group));
      CHECK(groups.values.Hash(true) != start);
      CheckOk(groups.Set(key, before, group));
      CHECK(groups.values.Hash(true) == start);
    }
  }
  for (const char* const key : {"lr", "gradient_scale"}) {
    const double value = 7;
    CheckOk(groups.Bind(key, &value, 1));
    CHECK(groups.values.Hash(true) != start);
    CHECK(groups.values.Hash(false) == start);
    CheckOk(groups.Unbind(key, 1));
  }
}

}  // namespace
}  // namespace shampoo
