// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
// Tests of the dtypes of parameters, gradients, outputs, copies (shampoo_buffers.copy), states and computations.
#include "tests/capi/behaviour/host.h"
#include "tests/capture.h"

namespace shampoo_test {
namespace {

const Keys kKeys =
    "grafting=adam momentum=0.75 weight_decay=0.1 epsilon=1e-3 beta2=0.9 precondition_frequency=2 "
    "max_preconditioner_dim=4 use_merge_dims=false";
const std::vector<int64_t> kShape = {6, 5};

int32_t ComputationOf(int32_t param_dtype) { return param_dtype == SHAMPOO_F64 ? SHAMPOO_F64 : SHAMPOO_F32; }

// Compares steps of a parameter whose arrays have different dtypes (`mixed`) with steps of a parameter in the
// computation dtype (`plain`). Before each step, `plain` gets the parameter and the gradient of `mixed`.
void CheckMix(const Keys& keys, const std::vector<int64_t>& shape, int32_t param_dtype, int32_t grad_dtype,
              int32_t out_dtype) {
  shampoo_param_desc desc = Param("w", shape, param_dtype);
  desc.grad_dtype = grad_dtype;
  desc.out_dtype = out_dtype;
  desc.copy_dtype = kFloatDtypes[(param_dtype + grad_dtype + out_dtype) % 4];
  Host mixed(keys, {desc});
  const int32_t computation = ComputationOf(param_dtype);
  Host plain(keys, {Param("w", shape, computation)});
  Host::Tensors& tensor = mixed.tensors[0];
  std::mt19937_64 random(static_cast<uint64_t>(param_dtype * 16 + grad_dtype));
  mixed.Fill(random);
  for (int t = 0; t < 4; ++t) {
    mixed.FillGradients(random);
    plain.tensors[0].w = tensor.w.As(computation);
    plain.tensors[0].g = tensor.g.As(computation);
    plain.Step();
    mixed.Step();
    const Array& result = plain.tensors[0].w;
    CHECK(tensor.w == result.As(out_dtype).As(param_dtype));
    CHECK(tensor.copy == result.As(desc.copy_dtype));
    if (tensor.separate) CHECK(tensor.out == result.As(out_dtype));
    mixed.CheckSameStates(plain);
  }
}

TEST_CASE("with mixed dtypes, each output is the result of a step in the computation dtype and is rounded once") {
  for (const int32_t param_dtype : kFloatDtypes) {
    for (const int32_t grad_dtype : kFloatDtypes) {
      for (const int32_t out_dtype : kFloatDtypes) {
        CAPTURE_ALL(param_dtype, grad_dtype, out_dtype);
        CheckMix(kKeys, {6, 4}, param_dtype, grad_dtype, out_dtype);
        CheckMix(kKeys + "max_preconditioner_dim=16", {8, 9, 10}, param_dtype, grad_dtype, out_dtype);
        CheckMix(kKeys + "grafting=none", kShape, param_dtype, grad_dtype, out_dtype);
      }
    }
  }
}

TEST_CASE("updates are rounded once, to the dtype of the output") {
  for (const int32_t out_dtype : kFloatDtypes) {
    shampoo_param_desc desc = Param("w", kShape, SHAMPOO_F64);
    Host exact(kKeys + "output=updates", {desc});
    desc.out_dtype = out_dtype;
    Host rounded(kKeys + "output=updates", {desc});
    std::mt19937_64 random(7);
    for (int t = 0; t < 3; ++t) {
      exact.tensors[0].w.Fill(random);
      exact.tensors[0].g.Fill(random);
      rounded.tensors[0].w = exact.tensors[0].w;
      rounded.tensors[0].g = exact.tensors[0].g;
      exact.tensors[0].separate = rounded.tensors[0].separate = true;
      exact.Step();
      rounded.Step();
      CHECK(rounded.tensors[0].out == exact.tensors[0].out.As(out_dtype));
    }
  }
}

TEST_CASE("adding the updates to the parameters in float32 gives results bit-identical to a step in place") {
  const std::vector<shampoo_param_desc> params = {Param("a", {4, 3}), Param("b", {5})};
  Host in_place(kKeys, params);
  Host updates(kKeys + "output=updates", params);
  std::mt19937_64 random = in_place.FillFrom(1);
  updates.CopyParams(in_place);
  for (int t = 0; t < 6; ++t) {
    in_place.FillGradients(random);
    for (size_t p = 0; p < 2; ++p) {
      updates.tensors[p].g = in_place.tensors[p].g;
      updates.tensors[p].separate = true;
    }
    in_place.Step();
    updates.Bind();
    RequireOk(shampoo_optimizer_step(updates.optimizer, nullptr));
    for (size_t p = 0; p < 2; ++p) {
      Array& w = updates.tensors[p].w;
      for (size_t i = 0; i < w.size(); ++i) w.Set(i, w.Get(i) + updates.tensors[p].out.Get(i));
      CHECK(w == in_place.tensors[p].w);
    }
  }
}

TEST_CASE(
    "if a parameter has no gradient, a step rounds it directly to the dtypes of out and copy; with output=updates, out "
    "is 0") {
  for (const int32_t param_dtype : kFloatDtypes) {
    for (const int32_t out_dtype : kFloatDtypes) {
      for (const int32_t copy_dtype : kFloatDtypes) {
        for (const char* const output : {"parameters", "updates"}) {
          shampoo_param_desc desc = Param("w", {700}, param_dtype);
          desc.out_dtype = out_dtype;
          desc.copy_dtype = copy_dtype;
          Host host(Keys{{"max_preconditioner_dim", "8"}, {"output", output}}, {desc});
          Host::Tensors& tensor = host.tensors[0];
          std::mt19937_64 random(2);
          tensor.w.Fill(random);
          tensor.w.Set(1, 1e30);
          tensor.w.Set(2, -1e-7);
          // In float64, element 3 is just above a midpoint of two bf16 numbers, and element 4 is just above a midpoint
          // of two f16 numbers. Rounding these elements first to float32 gives a wrong result.
          tensor.w.Set(3, 1 + std::ldexp(1, -8) + std::ldexp(1, -40));
          tensor.w.Set(4, 1 + std::ldexp(1, -11) + std::ldexp(1, -40));
          tensor.has_grad = false;
          tensor.separate = true;
          tensor.out.Fill(random);
          const Array before = tensor.w;
          host.Step();
          CHECK(tensor.out == (output == std::string("updates") ? Array(out_dtype, 700) : before.As(out_dtype)));
          CHECK(tensor.copy == before.As(copy_dtype));
          CHECK(host.Steps(0) == 0);
        }
      }
    }
  }
}

TEST_CASE("float32 parameters with computation_dtype=f64 equal the rounded parameters of a float64 run") {
  Host single(kKeys + "computation_dtype=f64", {Param("w", kShape)});
  Host wide(kKeys, {Param("w", kShape, SHAMPOO_F64)});
  Host plain(kKeys, {Param("w", kShape)});
  std::mt19937_64 random = single.FillFrom(3);
  plain.tensors[0].w = single.tensors[0].w;
  for (int t = 0; t < 4; ++t) {
    single.FillGradients(random);
    plain.tensors[0].g = single.tensors[0].g;
    wide.tensors[0].w = single.tensors[0].w.As(SHAMPOO_F64);
    wide.tensors[0].g = single.tensors[0].g.As(SHAMPOO_F64);
    for (Host* host : {&single, &wide, &plain}) host->Step();
    CHECK(single.tensors[0].w == wide.tensors[0].w.As(SHAMPOO_F32));
    CHECK(single.Read("w/0/factor.0") == wide.Read("w/0/factor.0"));
  }
  CHECK(!(single.tensors[0].w == plain.tensors[0].w));
}

TEST_CASE("float64 parameters with computation_dtype=f32 equal the parameters of a float32 run") {
  const Keys narrow = kKeys + "computation_dtype=f32";
  Host wide(narrow, {Param("w", kShape, SHAMPOO_F64)});
  Host single(narrow, {Param("w", kShape)});
  std::mt19937_64 random = wide.FillFrom(4);
  for (int t = 0; t < 4; ++t) {
    wide.FillGradients(random);
    single.tensors[0].w = wide.tensors[0].w.As(SHAMPOO_F32);
    single.tensors[0].g = wide.tensors[0].g.As(SHAMPOO_F32);
    wide.Step();
    single.Step();
    CHECK(wide.tensors[0].w == single.tensors[0].w.As(SHAMPOO_F64));
  }
}

TEST_CASE("inverse roots are computed in root_dtype") {
  const Keys keys = "use_bias_correction=false use_merge_dims=false epsilon=1e-3";
  struct Case {
    int32_t param_dtype;
    const char* root_name;
    int32_t root_dtype;
  };
  for (const auto& [param_dtype, root_name, root_dtype] : {Case{SHAMPOO_F32, "f64", SHAMPOO_F64},
                                                           {SHAMPOO_F32, "auto", SHAMPOO_F32},
                                                           {SHAMPOO_F64, "f32", SHAMPOO_F32},
                                                           {SHAMPOO_F64, "auto", SHAMPOO_F64}}) {
    CAPTURE_ALL(param_dtype, root_name);
    Host host(keys + Keys{{"root_dtype", root_name}}, {Param("w", kShape, param_dtype)});
    host.StepFrom(5);
    Array a = host.Read("w/0/factor.0").As(root_dtype);
    Array x(root_dtype, a.size());
    const ConfigPtr config = MakeConfig(keys);
    RequireOk(shampoo_matrix_inverse_root(config.get(), 6, root_dtype, a.data(), x.data(), 4, 1, nullptr));
    CHECK(host.Read("w/0/inverse.0") == x.As(param_dtype));
  }
}

// Compares two runs. The run `narrow` stores one state in `dtype`. The run `wide` stores this state in the computation
// dtype, and the test rounds the state to `dtype` after each step. Within a step, both runs use the new value of the
// state before it is rounded. Therefore all other results must be equal.
TEST_CASE("a state that is not stored in the computation dtype is rounded once, at the end of a step") {
  const std::pair<const char*, const char*> states[] = {{"factor_dtype", "factor"},
                                                        {"inverse_dtype", "inverse"},
                                                        {"filtered_grad_dtype", "filtered_grad"},
                                                        {"momentum_dtype", "momentum"},
                                                        {"grafting_dtype", "grafting"}};
  const char* const names[] = {"", "f32", "f64", "f16", "bf16"};
  for (const int32_t computation : {SHAMPOO_F32 + 0, SHAMPOO_F64 + 0}) {
    for (const auto& [key, state] : states) {
      for (const int32_t dtype : kFloatDtypes) {
        CAPTURE_ALL(computation, key, dtype);
        Host narrow(kKeys + Keys{{key, names[dtype]}}, {Param("w", kShape, computation)});
        Host wide(kKeys, {Param("w", kShape, computation)});
        std::mt19937_64 random = narrow.FillFrom(6);
        wide.tensors[0].w = narrow.tensors[0].w;
        for (int t = 0; t < 5; ++t) {
          StepBoth(&narrow, &wide, random);
          CHECK(narrow.tensors[0].w == wide.tensors[0].w);
          int found = 0;
          for (const Host::Entry& entry : narrow.Entries()) {
            Array expected = wide.Read(std::string(entry.info.key));
            if (std::string(entry.info.key).find(state) != std::string::npos) {
              CHECK(entry.info.dtype == dtype);
              wide.Write(entry.info.key, expected.As(dtype).As(computation));
              expected = expected.As(dtype);
              ++found;
            }
            CHECK_MESSAGE(narrow.Read(entry) == expected, std::string(entry.info.key));
          }
          CHECK(found >= 4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shampoo_test
