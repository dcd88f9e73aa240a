// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tests/cuda/host/device_host.h"

namespace shampoo_test {
namespace {

using shampoo::RootFailure;
using shampoo::cuda::Rejection;

const Keys kAtOnce = {{"status_lag", "0"}};

void FindNan() {
  TheFake().finds.rejection = Rejection::kGradientNotFinite;
  TheFake().finds.element = 5;
  TheFake().finds.value = std::numeric_limits<double>::quiet_NaN();
}

TEST_CASE("a call waits for the previous step and not for its own; the host determines numbers and schedule") {
  int stream = 0;
  DeviceHost host(Keys{{"precondition_frequency", "3"}}, &stream);
  FakeDevice& fake = TheFake();
  CHECK(fake.stream == &stream);
  for (int64_t t = 1; t <= 7; ++t) {
    Must(host.Step(&stream));
    CHECK(fake.steps_given == t);
    CHECK(fake.waits == t - 1);
    CHECK(fake.expected_step[0] == t);
    CHECK(fake.tasks[0] == (t % 3 == 0 ? shampoo::RootTask::kCompute : shampoo::RootTask::kNone));
    CHECK(fake.args.any_refresh == (t % 3 == 0 ? 1 : 0));
    CHECK(fake.args.buffers_changed == (t == 1 ? 1 : 0));
    CHECK(host.Stat("steps") == static_cast<double>(t - 1));
  }
  CHECK(fake.downloads == 0);
  CHECK(host.Steps() == 7);
  CHECK(host.Stat("steps") == 7);
}

TEST_CASE("with status_lag 0, a call waits for its own step") {
  DeviceHost host(kAtOnce);
  Must(host.Step());
  CHECK(TheFake().waits == 1);
  CHECK(host.Stat("steps") == 1);
}

TEST_CASE("the next call reports a rejected step, and makes no step") {
  DeviceHost host(Keys{});
  Must(host.Step());
  FindNan();
  Must(host.Step());
  CHECK(host.Step() == SHAMPOO_E_NUMERIC);
  CHECK(MissingWord(shampoo_last_error(), {"the previous step was rejected", "changed nothing either",
                                           "the gradient of parameter \"w\" has NaN at element 5 (block w/0)",
                                           "nothing has changed", "on_nonfinite"}) == "");
  CHECK(TheFake().steps_given == 2);
  Must(host.Step());
  CHECK(TheFake().expected_step[0] == 2);
  CHECK(TheFake().args.acknowledged_rejections == 1);
  Must(host.Step());
  CHECK(host.Steps() == 3);
}

TEST_CASE("with status_lag 0, the call of the rejected step reports it with the error text of the CPU") {
  DeviceHost host(kAtOnce);
  FindNan();
  CHECK(host.Step() == SHAMPOO_E_NUMERIC);
  CHECK(std::string(shampoo_last_error()).rfind("the gradient of parameter \"w\" has NaN at element 5", 0) == 0);
  Must(host.Step());
  CHECK(host.Steps() == 1);
}

TEST_CASE("shampoo_optimizer_status reports the rejection of the last step once") {
  DeviceHost host(Keys{});
  Must(host.Step());
  FindNan();
  Must(host.Step());
  int64_t failed = -1;
  Must(shampoo_optimizer_status(host.optimizer, 0, &failed));  // not known yet
  CHECK(failed == 0);
  CHECK(shampoo_optimizer_status(host.optimizer, 1, &failed) == SHAMPOO_E_NUMERIC);
  CHECK(failed == 2);
  Must(shampoo_optimizer_status(host.optimizer, 1, nullptr));
  Must(host.Step());
  CHECK(host.Steps() == 2);
}

TEST_CASE("every reason of a rejection has its error text") {
  struct Case {
    Rejection rejection;
    double value;
    int32_t dim;
    shampoo_status code;
    std::vector<std::string> words;
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<Case> cases = {
      {Rejection::kGradientNotFinite,
       infinity,
       0,
       SHAMPOO_E_NUMERIC,
       {"the gradient of parameter \"w\" has an infinity"}},
      {Rejection::kParamNotFinite, infinity, 0, SHAMPOO_E_NUMERIC, {"parameter \"w\" has an infinity at element 7"}},
      {Rejection::kElementTooLarge, 1e39, 0, SHAMPOO_E_NUMERIC, {"too large: it would overflow f32", "1e+39"}},
      {Rejection::kMomentTooLarge, 1e30, 0, SHAMPOO_E_NUMERIC, {"the grafting state would overflow f32"}},
      {Rejection::kProductTooLarge, 1e30, 1, SHAMPOO_E_NUMERIC, {"factor.1 would overflow f32"}},
      {Rejection::kProductTooLarge, 1e9, 0, SHAMPOO_E_NUMERIC, {"factor.0 would overflow f32"}},
      {Rejection::kFactorTooLarge, 1e9, 0, SHAMPOO_E_NUMERIC, {"factor.0 would overflow f16", "wider factor_dtype"}},
      {Rejection::kFactorNotFinite, infinity, 1, SHAMPOO_E_NUMERIC, {"the factor matrix w/0/factor.1 has an infinity"}},
      {Rejection::kCounter, -4, 0, SHAMPOO_E_STATE, {"group.0/step\" is -4"}},
      {Rejection::kLearningRate, -2, 0, SHAMPOO_E_INVALID, {"the scalar bound to group 0", "key lr", "-2"}},
      {Rejection::kGradientScale, infinity, 0, SHAMPOO_E_INVALID, {"gradient_scale", "inf"}},
  };
  for (const Case& one : cases) {
    DeviceHost host(
        Keys{{"status_lag", "0"}, {"grafting", "adam"}, {"factor_dtype", one.value == 1e9 ? "f16" : "f32"}});
    TheFake().finds.rejection = one.rejection;
    TheFake().finds.value = one.value;
    TheFake().finds.dim = one.dim;
    TheFake().finds.element = 7;
    CHECK(host.Step() == one.code);
    for (const std::string& word : one.words) CHECK(MissingWord(shampoo_last_error(), {word}) == "");
    Must(host.Step());
  }
}

TEST_CASE("skipped steps are counted, and the group's step counter does not change") {
  DeviceHost host(Keys{{"on_nonfinite", "skip_step"}});
  Must(host.Step());
  TheFake().skips = true;
  TheFake().skipped_blocks = 1;
  Must(host.Step());
  Must(host.Step());
  CHECK(TheFake().expected_step[0] == 2);
  CHECK(host.Steps() == 2);
  CHECK(host.Stat("skipped_steps") == 1);
  CHECK(host.Stat("nonfinite_blocks") == 1);
}

TEST_CASE("the next step reports a skipped update once") {
  DeviceHost host(Keys{});
  TheFake().skipped_updates = 1;
  Must(host.Step());
  CHECK(host.Step() == SHAMPOO_E_NUMERIC);
  CHECK(MissingWord(shampoo_last_error(), {"the direction of block w/0 was not finite"}) == "");
  Must(host.Step());
  CHECK(host.Stat("nonfinite_blocks") == 1);
}

TEST_CASE("the host computes a root that the device could not compute") {
  for (const char* lag : {"0", "1"}) {
    DeviceHost host(Keys{{"status_lag", lag}, {"epsilon", "1e-12"}});
    TheFake().fails_roots = true;
    Must(host.Step());
    // 16^(-1/4), computed by a step that waits for it or by a function that reads the state.
    CHECK(host.Read("w/0/inverse.0", 1)[0] == doctest::Approx(0.5));
    CHECK(host.Read("w/0/inverse.1", 2)[1] == 0);
    CHECK(host.Stat("root_computed") == 2);
    CHECK(host.Stat("root_retried") == 2);
    CHECK(host.Stat("root_retried_float64") == 2);
    Must(host.Step());
    Must(host.Step());
    CHECK(host.Stat("root_reused") == 0);
  }
}

TEST_CASE("the host does not write a recovered root to an arena that later steps only read") {
  DeviceHost host(Keys{{"root_failure_tolerance", "0"}});
  int64_t bytes = 0;
  Must(shampoo_plan_bytes(host.plan, 0, "state", &bytes));
  std::vector<char> memory(static_cast<size_t>(2 * bytes + 256));
  char* const first = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
  char* const second = first + bytes;
  Must(shampoo_optimizer_bind_state(host.optimizer, first, second));
  TheFake().fails_roots = true;
  Must(host.Step());
  CHECK(TheFake().downloads == 1);  // the step counters of the state
  CHECK(TheFake().expected_step[0] == 1);
  Must(shampoo_optimizer_bind_state(host.optimizer, second, first));
  CHECK(host.Step() == SHAMPOO_E_NUMERIC);
  CHECK(MissingWord(shampoo_last_error(), {"inverse root of w/0/factor.0", "root_failure_tolerance (0)"}) == "");
  CHECK(host.Stat("root_reused") == 2);
  Must(host.Step());
  CHECK(TheFake().expected_step[0] == 2);
  CHECK(TheFake().downloads == 1);  // the host knows what a step has written
}

TEST_CASE("a state that other code has written is rejected once, unless the caller announces it") {
  DeviceHost host(Keys{});
  int64_t bytes = 0;
  Must(shampoo_plan_bytes(host.plan, 0, "state", &bytes));
  std::vector<char> memory(static_cast<size_t>(bytes + 256));
  char* const arena = memory.data() + (256 - reinterpret_cast<uintptr_t>(memory.data()) % 256);
  Must(shampoo_optimizer_bind_state(host.optimizer, arena, arena));
  Must(host.Step());
  const std::vector<char> snapshot(arena, arena + bytes);
  for (int i = 0; i < 3; ++i) Must(host.Step());
  std::copy(snapshot.begin(), snapshot.end(), arena);
  Must(host.Step());
  CHECK(host.Step() == SHAMPOO_E_STATE);
  CHECK(MissingWord(shampoo_last_error(), {"\"group.0/step\" is 1", "left 4", "shampoo_optimizer_bind_state"}) == "");
  Must(host.Step());
  CHECK(TheFake().expected_step[0] == 2);
  std::copy(snapshot.begin(), snapshot.end(), arena);
  Must(shampoo_optimizer_bind_state(host.optimizer, nullptr, nullptr));
  Must(shampoo_optimizer_bind_state(host.optimizer, arena, arena));
  Must(host.Step());
  Must(shampoo_optimizer_status(host.optimizer, 1, nullptr));
  CHECK(TheFake().expected_step[0] == 2);
}

TEST_CASE("a written counter and a learning rate in device memory take effect in the next step") {
  DeviceHost host(Keys{});
  float lr = 0.5F;
  CHECK(shampoo_optimizer_bind_scalar(host.optimizer, 0, "lr", SHAMPOO_F32, reinterpret_cast<char*>(&lr) + 1) ==
        SHAMPOO_E_INVALID);
  Must(shampoo_optimizer_bind_scalar(host.optimizer, 0, "lr", SHAMPOO_F32, &lr));
  const int64_t steps = 41;
  Must(shampoo_state_write(host.optimizer, host.IndexOf("group.0/step"), 0, 1, &steps, sizeof steps, SHAMPOO_CPU,
                           nullptr));
  Must(host.Step());
  CHECK(TheFake().expected_step[0] == 42);
  CHECK(TheFake().args.groups[0].bound_lr.value == &lr);
  CHECK(host.Steps() == 42);
  lr = -1;
  Must(host.Step());
  CHECK(host.Step() == SHAMPOO_E_INVALID);
  CHECK(MissingWord(shampoo_last_error(), {"the scalar bound to group 0: key lr: the value -1"}) == "");
}

}  // namespace
}  // namespace shampoo_test
