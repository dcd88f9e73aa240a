// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "core/config/option_text.h"
#include "tests/core/status_check.h"

namespace shampoo {
namespace {

TEST_CASE("pairs of key and value in option text are separated by blanks or tabs or line ends or comments") {
  for (const char* text :
       {"lr=0.25 beta1=0.5", " lr = 0.25\tbeta1 =0.5 ", "lr=0.25\nbeta1=0.5\n", "lr=0.25\r\nbeta1= 0.5",
        "# a file\n\nlr=0.25 # as measured\n  beta1=0.5#", "lr=1 lr=0.25 beta1=0.5"}) {
    CAPTURE(text);
    Config config;
    CheckOk(SetFromOptionText(text, &config));
    CHECK(*config.Text("lr") == "0.25");
    CHECK(*config.Text("beta1") == "0.5");
    CHECK(!config.IsSet(*FindKey("beta2")));
  }
}

TEST_CASE("option text without pairs of key and value sets no key") {
  for (const char* text : {"", " \t\r\n", "# lr=0.25"}) {
    Config config;
    CheckOk(SetFromOptionText(text, &config));
    for (const Key& key : Keys()) CHECK(!config.IsSet(key));
  }
}

TEST_CASE(
    "wrong option text sets no key, and the error says what is wrong and gives the line number if the mistake is not "
    "in the first line") {
  struct Case {
    const char* text;
    const char* says;
  };
  for (const Case& one : {
           Case{nullptr, "options is NULL"},
           {"lr=0.25 beta1", "options: key beta1 has no value: expected beta1=value"},
           {"lr=0.25 beta1=", "options: key beta1 has no value after \"=\""},
           {"lr=0.25 =0.5", "options: there is no key before"},
           {"lr=0.25 bata1=0.5", "options: there is no key \"bata1\": did you mean beta1?"},
           {"lr=0.25, beta1=0.5", "options: key lr"},
           {"lr=0.25\n\nbeta1=2", "options, line 3: key beta1"},
           {"lr=0.25 inverse_root_override=0, 2", "options: key inverse_root_override"},
       }) {
    CAPTURE(std::string(one.says));
    Config config;
    CheckError(SetFromOptionText(one.text, &config), Code::kInvalid, one.says);
    for (const Key& key : Keys()) CHECK(!config.IsSet(key));
  }
}

}  // namespace
}  // namespace shampoo
