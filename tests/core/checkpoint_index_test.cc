// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Strings that a save never writes to an index: file names that are paths, and strings with zero bytes, which would end
// a C string.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/checkpoint/index.h"
#include "core/checkpoint/safetensors.h"

namespace shampoo {
namespace {

using Document = nlohmann::ordered_json;

// Returns an index of one parameter with one block.
Document MakeIndex() {
  const std::string sum(16, '0');
  Document index;
  index["format_version"] = 1;
  index["library_version"] = "0.1.0";
  index["world"] = 1;
  index["groups"] = {{{"step", 3}, {"config", {{"lr", "0.1"}}}}};
  index["parameters"] = {{{"name", "weight"}, {"shape", {2, 3}}, {"dtype", "F32"}, {"group", 0}}};
  index["files"] = {{{"name", "states"}, {"bytes", 100}, {"start_checksum", sum}}};
  index["blocks"] = {{{"parameter", "weight"},
                      {"key", "weight/0"},
                      {"file", "states"},
                      {"shape", {2, 3}},
                      {"offset", 0},
                      {"strides", {3, 1}},
                      {"entries", {{"momentum", {{"dtype", "F32"}, {"checksum", sum}}}}}}};
  return index;
}

Status Parse(const Document& checkpoint) {
  const std::string text = Document{{"checksum", std::string(16, '0')}, {"checkpoint", checkpoint}}.dump();
  IndexText index_text(text);
  CheckpointIndex index;
  return ParseIndex(
      &index_text, [](const CheckpointIndex&, const StoredBlock&) { return true; }, &index);
}

// Checks that the index is rejected, and that the error message has no control characters.
void CheckRefused(const Document& checkpoint, const std::string& says) {
  const Status status = Parse(checkpoint);
  CHECK(status.code() == Code::kIo);
  const std::string text = status.message();
  CHECK_MESSAGE(text.find(says) != std::string::npos, text);
  CHECK_MESSAGE(text.find("expected") != std::string::npos, text);
  for (const char c : text) CHECK(static_cast<unsigned char>(c) >= 0x20);
}

TEST_CASE("a file name that is a path, a directory or empty is rejected with a specific error") {
  REQUIRE_MESSAGE(Parse(MakeIndex()).ok(), Parse(MakeIndex()).message());
  struct Case {
    std::string name, says;
  };
  const std::vector<Case> cases = {{"", "the file name \"\" is empty"},
                                   {".", "the file name \".\" is the name of a directory"},
                                   {"..", "the file name \"..\" is the name of a directory"},
                                   {"/", "the file name \"/\" contains a slash"},
                                   {"/dev/zero", "the file name \"/dev/zero\" contains a slash"},
                                   {"../states", "the file name \"../states\" contains a slash"},
                                   {"a/b", "the file name \"a/b\" contains a slash"}};
  for (const Case& one : cases) {
    CAPTURE(one.name);
    Document index = MakeIndex();
    index["files"][0]["name"] = one.name;
    index["blocks"][0]["file"] = one.name;
    CheckRefused(index, one.says);
  }
}

TEST_CASE("a file name with a control character is rejected, and the error shows the character as an escape") {
  for (int c = 0; c < 256; ++c) {
    if (c >= 0x20 && c != 0x7f) continue;
    CAPTURE(c);
    constexpr char kDigits[] = "0123456789abcdef";
    Document index = MakeIndex();
    const std::string name = std::string("states") + static_cast<char>(c) + "x";
    index["files"][0]["name"] = name;
    index["blocks"][0]["file"] = name;
    const std::string shown = std::string("\"states\\x") + kDigits[c >> 4] + kDigits[c & 15] + "x\"";
    CheckRefused(index, "the file name " + shown + " contains a control character");
  }
}

TEST_CASE("a zero byte anywhere in an index is rejected") {
  const std::string zero = std::string("a\0b", 3);
  const std::vector<std::string> texts = {
      "/library_version", "/parameters/0/name",  "/parameters/0/dtype", "/groups/0/config/lr",
      "/blocks/0/key",    "/blocks/0/parameter", "/blocks/0/file",      "/blocks/0/entries/momentum/dtype"};
  for (const std::string& path : texts) {
    CAPTURE(path);
    Document index = MakeIndex();
    index[Document::json_pointer(path)] = zero;
    CheckRefused(index, "a text contains a zero byte");
  }
  for (const std::string path : {"/groups/0/config", "/blocks/0/entries", "/parameters/0", ""}) {
    CAPTURE(path);
    Document index = MakeIndex();
    Document& object = index[Document::json_pointer(path)];
    object[zero] = object.begin().value();
    CheckRefused(index, "a text contains a zero byte");
  }
}

TEST_CASE("names of parameters may have control characters except zero bytes") {
  Document index = MakeIndex();
  const std::string name = "line\nfeed\t\x01\x7f";
  index["parameters"][0]["name"] = name;
  index["blocks"][0]["parameter"] = name;
  index["blocks"][0]["key"] = name + "/0";
  CHECK_MESSAGE(Parse(index).ok(), Parse(index).message());
}

TEST_CASE("a zero byte in the name of a tensor is rejected") {
  const std::string name = std::string("a\0b", 3);
  for (const Document& tensor : {Document{{"dtype", "no such dtype"}}, Document(3)}) {
    std::vector<TensorSpec> tensors;
    const Status status = ParseSafetensorsHeader(Document{{name, tensor}}.dump(), 100, &tensors);
    CHECK(status.code() == Code::kIo);
    CHECK_MESSAGE(status.message().find("contains a zero byte") != std::string::npos, status.message());
    CHECK(status.message().find('\0') == std::string::npos);
  }
}

}  // namespace
}  // namespace shampoo
