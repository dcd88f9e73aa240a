// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "core/config/ns_coefficients.h"

namespace shampoo {
namespace {

struct ParsedSchedule {
  bool ok = false;
  NsCoefficients coefficients;
  std::string canonical;
};

ParsedSchedule ParseSchedule(const std::string& text) {
  ParsedSchedule parsed;
  parsed.ok = ParseNsCoefficients(text, &parsed.coefficients, &parsed.canonical);
  return parsed;
}

TEST_CASE("ParseNsCoefficients finds each Newton-Schulz schedule by name and returns all entries of the schedule") {
  const int counts[] = {5, 1, 5, 5};
  int i = 0;
  for (const char* const name : kNsScheduleNames) {
    CAPTURE(std::string(name));
    const ParsedSchedule parsed = ParseSchedule(name);
    CHECK(parsed.ok);
    CHECK(parsed.coefficients.count == counts[i++]);
    CHECK(parsed.coefficients.divisor == (std::string(name) == "polar_express" ? 1.02 : 1));
    CHECK(parsed.canonical == name);
  }
}

TEST_CASE("a list of coefficients may contain blanks and its canonical form has no blanks") {
  const ParsedSchedule parsed = ParseSchedule(" 2 , -1.5,5e-1 ; 1,0,0");
  REQUIRE(parsed.ok);
  CHECK(parsed.canonical == "2,-1.5,0.5;1,0,0");
  CHECK(parsed.coefficients.count == 2);
  CHECK(parsed.coefficients.divisor == 1);
  CHECK(parsed.coefficients.entries[0].a == 2);
  CHECK(parsed.coefficients.entries[0].b == -1.5);
  CHECK(parsed.coefficients.entries[0].c == 0.5);
  CHECK(parsed.coefficients.entries[1].a == 1);
  const ParsedSchedule again = ParseSchedule(parsed.canonical);
  CHECK(again.canonical == parsed.canonical);
}

TEST_CASE("a list of coefficients has 1 to 16 entries, each of three finite numbers") {
  std::string longest = "1,2,3";
  for (int i = 1; i < NsCoefficients::kMaxEntries; ++i) longest += ";1,2,3";
  CHECK(ParseSchedule(longest).ok);
  for (const std::string& wrong :
       {longest + ";1,2,3", std::string(), std::string("1,2"), std::string("1,2,3,4"), std::string("1,2,3;"),
        std::string(";1,2,3"), std::string("1,2,inf"), std::string("1,2,nan"), std::string("1,,3"), std::string("a"),
        std::string("1,2,3x"), std::string("Jordan"), std::string("jordan;quintic"), std::string("1;2;3")}) {
    CAPTURE(wrong);
    CHECK(!ParseSchedule(wrong).ok);
  }
}

}  // namespace
}  // namespace shampoo
