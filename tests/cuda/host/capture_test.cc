// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/host/device_host.h"

namespace shampoo_test {
namespace {

TEST_CASE("a captured step does not wait, and the next call reads the number of replays") {
  DeviceHost host(Keys{{"precondition_frequency", "10"}});
  FakeDevice& fake = TheFake();
  Must(host.Step());
  fake.capturing = true;
  Must(host.Step());
  fake.capturing = false;
  CHECK(fake.args.captured == 1);
  CHECK(fake.expected_step[0] == 2);
  CHECK(fake.waits == 0);
  for (int i = 0; i < 5; ++i) fake.replay();
  Must(host.Step());
  CHECK(fake.downloads == 1);
  CHECK(fake.expected_step[0] == 7);
  CHECK(host.Steps() == 7);
  CHECK(host.Stat("steps") == 7);
}

TEST_CASE("a step at which roots are due is not captured, and a replay of it is rejected") {
  DeviceHost host(Keys{{"precondition_frequency", "3"}});
  FakeDevice& fake = TheFake();
  fake.capturing = true;
  Must(host.Step());
  fake.capturing = false;
  fake.replay();
  fake.replay();
  fake.replay();  // step 3
  fake.replay();  // stale
  CHECK(host.Step() == SHAMPOO_E_STATE);
  CHECK(MissingWord(shampoo_last_error(), {"a captured step was replayed as step 3 of group 0", "roots are due"}) ==
        "");
  fake.capturing = true;
  CHECK(host.Step() == SHAMPOO_E_STATE);  // the host knows the step number
  fake.capturing = false;
  Must(host.Step());
  CHECK(fake.tasks[0] == shampoo::RootTask::kCompute);
  fake.replay();
  CHECK(host.Steps() == 4);
  Must(host.Step());
  fake.capturing = true;
  CHECK(host.Step() == SHAMPOO_E_STATE);
  CHECK(MissingWord(shampoo_last_error(), {"at step 6 of group 0 inverse roots are due", "outside of a capture"}) ==
        "");
  fake.capturing = false;
  Must(host.Step());
  CHECK(host.Steps() == 6);
}

TEST_CASE("shampoo_optimizer_status reports errors of replays") {
  DeviceHost host(Keys{{"precondition_frequency", "10"}});
  FakeDevice& fake = TheFake();
  Must(host.Step());
  fake.capturing = true;
  Must(host.Step());
  fake.capturing = false;
  fake.replay();
  fake.finds.rejection = shampoo::cuda::Rejection::kGradientNotFinite;
  fake.replay();
  int64_t failed = 0;
  CHECK(shampoo_optimizer_status(host.optimizer, 1, &failed) == SHAMPOO_E_NUMERIC);
  CHECK(failed == 2);
  Must(host.Step());
  fake.replay();
  CHECK(host.Steps() == 4);
}

TEST_CASE("the step number of another state cannot be read while a stream is captured") {
  DeviceHost host(Keys{{"precondition_frequency", "10"}});
  Must(shampoo_optimizer_bind_state(host.optimizer, nullptr, nullptr));
  TheFake().capturing = true;
  CHECK(host.Step() == SHAMPOO_E_STATE);
  CHECK(MissingWord(shampoo_last_error(), {"is not known", "shampoo_optimizer_status"}) == "");
  Must(shampoo_optimizer_status(host.optimizer, 1, nullptr));
  Must(host.Step());
  TheFake().capturing = false;
}

}  // namespace
}  // namespace shampoo_test
