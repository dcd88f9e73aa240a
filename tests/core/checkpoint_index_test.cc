// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that a load rejects an index or a safetensors header that a save cannot have written. For example, a file name
// is a path, a string has a zero byte (which would end a C string), or a member is missing.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/checkpoint/index.h"
#include "core/checkpoint/safetensors.h"
#include "tests/core/status_check.h"

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
    CheckRefused(index, "a string contains a zero byte");
  }
  for (const std::string path : {"/groups/0/config", "/blocks/0/entries", "/parameters/0", ""}) {
    CAPTURE(path);
    Document index = MakeIndex();
    Document& object = index[Document::json_pointer(path)];
    object[zero] = object.begin().value();
    CheckRefused(index, "a string contains a zero byte");
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

TEST_CASE("an index that lacks a member, or refers to an unlisted group or file, is rejected with the reason") {
  struct Case {
    const char* change;  // an operation of a JSON Patch (RFC 6902)
    const char* says;
  };
  for (const Case& one :
       {Case{R"({"op": "remove", "path": "/format_version"})", "it has no format_version"},
        Case{R"({"op": "remove", "path": "/library_version"})", "it has no library_version or world"},
        Case{R"({"op": "remove", "path": "/groups/0/step"})", "a group has no step or config"},
        Case{R"({"op": "replace", "path": "/groups/0/step", "value": -1})", "the step of a group is out of range"},
        Case{R"({"op": "remove", "path": "/parameters/0/dtype"})", "a parameter lacks name, shape, dtype or group"},
        Case{R"({"op": "replace", "path": "/parameters/0/shape/0", "value": -2})",
             "the shape of a parameter is invalid"},
        Case{R"({"op": "replace", "path": "/parameters/0/group", "value": 1})", "names a group that is not listed"},
        Case{R"({"op": "copy", "from": "/parameters/0", "path": "/parameters/1"})",
             "two parameters have the same name"},
        Case{R"({"op": "replace", "path": "/files/0/bytes", "value": -1})",
             "a file lacks name, bytes or start_checksum"},
        Case{R"({"op": "copy", "from": "/files/0", "path": "/files/1"})", "two files have the same name"},
        Case{R"({"op": "remove", "path": "/blocks/0/key"})", "a block lacks parameter, file or key"},
        Case{R"({"op": "replace", "path": "/blocks/0/file", "value": "x"})", "a file that is not listed before it"},
        Case{R"({"op": "replace", "path": "/blocks/0/strides", "value": [1]})",
             "a block lacks shape, strides or offset"},
        Case{R"({"op": "replace", "path": "/blocks/0/offset", "value": 1})", "the position of a block is invalid"},
        Case{R"({"op": "add", "path": "/blocks/0/piece", "value": {}})", "the piece of a block lacks shape"},
        Case{R"({"op": "remove", "path": "/blocks/0/entries"})", "a block has no entries"},
        Case{R"({"op": "remove", "path": "/blocks/0/entries/momentum/checksum"})",
             "an entry lacks dtype or checksum"}}) {
    CAPTURE(std::string(one.change));
    CheckError(Parse(MakeIndex().patch(Document::parse("[" + std::string(one.change) + "]"))), Code::kIo, one.says);
  }
  const Status newer =
      Parse(MakeIndex().patch(Document::parse(R"([{"op":"add","path":"/format_version","value":9}])")));
  CHECK(newer.code() == Code::kUnsupported);
}

TEST_CASE("a safetensors header that is malformed or does not match its file is rejected with the reason") {
  const auto header = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"({"t":{"dtype":")") + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  struct Case {
    std::string header;
    const char* says;
  };
  for (const Case& one : {Case{"[]", "the header is not a JSON object"},
                          Case{R"({"t":1})", "the header entry of tensor \"t\" is not a JSON object"},
                          Case{header("F8", "[2]", "[0,2]"), "tensor \"t\": its dtype is missing or unknown"},
                          Case{header("F32", "2", "[0,8]"), "it has no shape"},
                          Case{header("F32", "[-2]", "[0,8]"), "its shape is invalid"},
                          Case{header("F32", "[4611686018427387904]", "[0,8]"), "its shape is invalid"},
                          Case{header("F32", "[2]", "[0]"), "it does not have two data_offsets"},
                          Case{header("F32", "[2]", "[93,101]"), "its data_offsets are outside of the file"},
                          Case{header("F32", "[2]", "[8,0]"), "its data_offsets are outside of the file"},
                          Case{header("F32", "[2]", "[0,9]"), "its data_offsets do not match its shape"}}) {
    std::vector<TensorSpec> tensors;
    CheckError(ParseSafetensorsHeader(one.header, 100, &tensors), Code::kIo, one.says);
  }
  std::vector<TensorSpec> tensors;
  CheckOk(ParseSafetensorsHeader(header("F32", "[2]", "[92,100]"), 100, &tensors));
  CHECK(tensors[0].end == 100);
}

TEST_CASE("a safetensors header must end within its file and must not be longer than 100 million bytes") {
  const auto read = [](int64_t length, int64_t file_bytes) {
    int64_t bytes = 0;
    return ReadSafetensorsLength(reinterpret_cast<const char*>(&length), file_bytes, &bytes);
  };
  CheckOk(read(12, 20));
  CheckError(read(13, 20), Code::kIo,
             "the header length is 13 bytes, but the file has 20 bytes, 8 of them before the header");
  CheckOk(read(100'000'000, 200'000'000));
  CheckError(read(100'000'001, 200'000'000), Code::kIo, "expected at most 100000000");
}

}  // namespace
}  // namespace shampoo
