// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "core/step/bound_buffers.h"
#include "tests/core/status_check.h"
#include "tests/core/step_fixture.h"

namespace shampoo {
namespace {

// Buffers of three parameters. The second parameter has no elements. The output of the third parameter is float64.
struct ThreeParams {
  ThreeParams() : fixture(SetupOf()), bound(fixture.plan()) {}
  static StepFixture::Setup SetupOf() {
    StepFixture::Setup setup{.keys = {}, .params = StepFixture::Describe({{2, 2}, {0, 2}, {2, 2}})};
    setup.params[2].out_dtype = Dtype::kF64;
    return setup;
  }
  Status Bind(int index, const Buffers& buffers) { return bound.Bind(index, {&buffers, 1}); }

  StepFixture fixture;
  BoundBuffers bound;
  alignas(8) float param[4] = {}, grad[4] = {}, out[8] = {}, copy[4] = {};
};

TEST_CASE("the bound buffers can be read, and HasGradient is true for a parameter with elements and a gradient") {
  ThreeParams three;
  const std::vector<Param>& params = three.fixture.plan().params;
  CheckOk(three.Bind(0, {three.param, three.grad, three.param, three.copy}));
  CheckOk(three.Bind(2, {three.param, nullptr, nullptr, nullptr}));
  CHECK(three.bound.all()[0].grad == three.grad);
  CHECK(three.bound.all()[0].copy == three.copy);
  CHECK(three.bound.HasGradient(params[0]));
  CHECK(!three.bound.HasGradient(params[2]));
  CheckOk(three.Bind(1, {nullptr, three.grad, nullptr, nullptr}));
  CHECK(!three.bound.HasGradient(params[1]));  // the parameter has no elements
}

TEST_CASE("a step needs buffers of every parameter with elements") {
  ThreeParams three;
  const Buffers some{three.param, nullptr, nullptr, nullptr};
  CheckOk(three.Bind(0, some));
  CheckError(three.bound.CheckAllBound(), Code::kState, "parameter \"p2\" (index 2) has no buffers");
  CheckOk(three.Bind(2, {}));
  CheckOk(three.bound.CheckAllBound());
}

TEST_CASE("a range outside the plan's parameters is rejected") {
  const ThreeParams three;
  for (const auto& [first, count] : {std::pair{-1, 1}, {0, 4}, {3, 1}, {4, 0}, {0, -1}, {INT32_MAX, INT32_MAX}}) {
    CheckError(three.bound.CheckRange(first, count), Code::kInvalid,
               Cat("first is ", first, " and count is ", count,
                   ": expected a range within [0, 3), the parameters of the plan"));
  }
  CheckOk(three.bound.CheckRange(3, 0));
}

TEST_CASE("the error for incompatible buffers names the buffer and the parameter") {
  ThreeParams three;
  float* const p = three.param;
  float* const o = three.out;
  char* const odd = reinterpret_cast<char*>(three.grad) + 1;
  struct Case {
    int param;
    Buffers buffers;
    const char* says;
  };
  for (const Case& one :
       {Case{0, {nullptr, three.grad, o, nullptr}, "parameter \"p0\": param is NULL although grad is not"},
        Case{0, {p, three.grad, nullptr, nullptr}, "out is NULL although grad is not"},
        Case{0, {nullptr, nullptr, o, nullptr}, "param is NULL although out is not"},
        Case{0, {nullptr, nullptr, nullptr, o}, "param is NULL although copy is not"},
        Case{0,
             {odd, nullptr, nullptr, nullptr},
             "param is not aligned: expected an address that is a multiple of 4, because the dtype is f32"},
        Case{0, {p, odd, p, nullptr}, "grad is not aligned"},
        Case{0, {p, three.grad, odd, nullptr}, "out is not aligned"},
        Case{0, {p, three.grad, p, odd}, "copy is not aligned"},
        Case{2,
             {p, three.grad, o + 1, nullptr},
             "parameter \"p2\": out is not aligned: expected an address that is a multiple of 8"},
        Case{0, {p, three.grad, p + 1, nullptr}, "out overlaps param"},
        Case{2, {p, three.grad, p, nullptr}, "out overlaps param"},  // out must not be param, because out is float64
        Case{0, {p, p, p, nullptr}, "out overlaps grad"}, Case{0, {p, three.grad, o, p + 3}, "copy overlaps param"},
        Case{0, {p, o + 4, o, o + 7}, "copy overlaps grad"}, Case{0, {p, three.grad, o, o + 3}, "copy overlaps out"}}) {
    CheckError(three.Bind(one.param, one.buffers), Code::kInvalid, one.says);
  }
}

TEST_CASE("if Bind rejects the buffers of one parameter, it binds none of the buffers of the call") {
  ThreeParams three;
  const Buffers good{three.param, three.grad, three.param, nullptr};
  const Buffers bad{nullptr, three.grad, three.param, nullptr};
  const Buffers buffers[] = {good, good, bad};
  CHECK(!three.bound.Bind(0, buffers).ok());
  CHECK(three.bound.all()[0].grad == nullptr);
  CheckError(three.bound.CheckAllBound(), Code::kState, "parameter \"p0\"");
  CheckOk(three.bound.Bind(0, std::span(buffers).first(2)));
  CHECK(three.bound.all()[0].grad == three.grad);
}

}  // namespace
}  // namespace shampoo
