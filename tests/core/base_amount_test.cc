// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/base/amount.h"

namespace shampoo {

TEST_CASE("CountText uses the singular only for the number 1") {
  CHECK(CountText(0, "rank") == "0 ranks");
  CHECK(CountText(1, "rank") == "1 rank");
  CHECK(CountText(2, "rank") == "2 ranks");
}

TEST_CASE("IndicesText lists the indices below a count") {
  CHECK(IndicesText(1) == "0");
  CHECK(IndicesText(2) == "0 to 1");
  CHECK(IndicesText(10) == "0 to 9");
}

TEST_CASE("BytesText writes numbers below 1024 in bytes and larger ones in the largest fitting unit from KiB to PiB") {
  CHECK(BytesText(0) == "0 bytes");
  CHECK(BytesText(1) == "1 byte");
  CHECK(BytesText(1023) == "1023 bytes");
  CHECK(BytesText(1024) == "1.0 KiB");
  CHECK(BytesText(1536) == "1.5 KiB");
  CHECK(BytesText(int64_t{5} << 20) == "5.0 MiB");
  CHECK(BytesText((int64_t{1} << 60) + (int64_t{1} << 59)) == "1536.0 PiB");
}

}  // namespace shampoo
