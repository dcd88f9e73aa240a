// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/checkpoint/progress.h"
#include "tests/core/log_capture.h"

namespace shampoo {
namespace {

TEST_CASE("progress is logged when two seconds have passed since the start or the last message") {
  using std::chrono::milliseconds;
  const std::chrono::steady_clock::time_point start;
  const LogCapture log(LogLevel::kInfo);
  Progress progress("saving", 4096, start);
  progress.Add(512, start + milliseconds(1999));
  CHECK(log.messages().empty());
  progress.Add(512, start + milliseconds(2000));
  CHECK(log.messages() == std::vector<std::string>{"saving: 1.0 KiB of 4.0 KiB, 25 %"});
  progress.Add(1024, start + milliseconds(3999));
  CHECK(log.messages().size() == 1);
  progress.Add(2048, start + milliseconds(4000));
  REQUIRE(log.messages().size() == 2);
  CHECK(log.messages()[1] == "saving: 4.0 KiB of 4.0 KiB, 100 %");
}

TEST_CASE("the progress of a save or a load of no bytes is 100 %") {
  const std::chrono::steady_clock::time_point start;
  const LogCapture log(LogLevel::kInfo);
  Progress("loading", 0, start).Add(0, start + std::chrono::seconds(2));
  CHECK(log.messages() == std::vector<std::string>{"loading: 0 bytes of 0 bytes, 100 %"});
}

}  // namespace
}  // namespace shampoo
