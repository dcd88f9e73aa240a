// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests functions that read and write the index of a checkpoint, which is a JSON file.
#include <doctest/doctest.h>

#include "core/checkpoint/index.h"
#include "core/checkpoint/index_writer.h"
#include "core/checkpoint/json.h"
#include "tests/core/status_check.h"
#include "tests/core/temporary_directory.h"

namespace shampoo {
namespace {

Json Parsed(std::string_view text) {
  Json value;
  REQUIRE(ParseJson(text, {}, &value));
  return value;
}

TEST_CASE("members of a JSON object are read by name, and only as values of their own type") {
  const Json object = Parsed(R"({"text": "a\"b", "number": -3, "numbers": [2, 3], "fraction": 0.5, "number": 4})");
  std::string text;
  int64_t number = 0;
  std::vector<int64_t> numbers;
  Shape shape;
  CHECK(Get(object, "text", &text));
  CHECK(text == "a\"b");
  CHECK(Get(object, "number", &number));
  CHECK(number == -3);  // two members have this name; Get() reads the first
  CHECK(Get(object, "numbers", &numbers));
  CHECK(numbers == std::vector<int64_t>{2, 3});
  CHECK(Get(object, "numbers", &shape));
  CHECK(shape == Shape::Of({2, 3}));
  CHECK(!Get(object, "absent", &number));
  CHECK(!Get(object, "fraction", &number));
  CHECK(!Get(object, "number", &text));
  CHECK(!Get(object, "text", &numbers));
  CHECK(Parsed("[1]").Find("text") == nullptr);
}

TEST_CASE(
    "integers beyond 64 bits, arrays with elements that are not numbers, and shapes with too many dims are not read") {
  int64_t number = 0;
  std::vector<int64_t> numbers;
  Shape shape;
  CHECK(Read(Parsed("9223372036854775807"), &number));
  CHECK(!Read(Parsed("9223372036854775808"), &number));
  CHECK(!Read(Parsed("[1, null]"), &numbers));
  CHECK(!Read(Parsed("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"), &shape));
}

TEST_CASE("a text that is not JSON, or has arrays or objects nested more than 16 levels deep, is rejected") {
  Json value;
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "1 2"}) {
    CAPTURE(text);
    CHECK(!ParseJson(text, {}, &value));
  }
  const auto nested = [](size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  CHECK(ParseJson(nested(16), {}, &value));
  CHECK(!ParseJson(nested(17), {}, &value));
}

TEST_CASE("ParseJson passes each complete object with its path to a callback, which can consume the object") {
  std::vector<std::string> paths;
  const auto consume = [&](std::span<const std::string> where, const Json& object) {
    std::string path;
    for (const std::string& name : where) path += "/" + name;
    paths.push_back(path);
    return object.Find("id") != nullptr;
  };
  Json value;
  REQUIRE(ParseJson(R"({"list": [{"id": 1}, {"other": {}}]})", consume, &value));
  CHECK(paths == std::vector<std::string>{"/list/", "/list//other", "/list/", ""});
  REQUIRE(value.Find("list") != nullptr);
  CHECK(value.Find("list")->values.size() == 1);  // the object with an id was consumed
}

TEST_CASE("the function Quoted returns a JSON string that can be read back, and Listed returns a JSON array") {
  const std::string text = "line\nquote\" \\ \xc3\xa9";
  std::string read;
  CHECK(Read(Parsed(Quoted(text)), &read));
  CHECK(read == text);
  const int64_t numbers[] = {0, -1, 7};
  CHECK(Listed(numbers) == "[0,-1,7]");
  CHECK(Listed({}) == "[]");
}

TEST_CASE("an index that was written array by array can be read") {
  const TemporaryDirectory directory;
  const std::string path = directory / "checkpoint-000001.json";
  StoredGroup group;
  group.step = 5;
  group.config = {{"lr", "0.1"}, {"name", "a \"quoted\" value"}};
  StoredParam param{"weight", Shape::Of({2, 3}), Dtype::kBf16, 0};
  IndexWriter writer;
  CheckOk(writer.Create(path, "1.2.3", 4));
  writer.Begin("groups");
  writer.Add(ToJson(group));
  writer.Begin("parameters");
  for (const char* name : {"weight", "bias"}) {
    param.name = name;
    writer.Add(ToJson(param));
  }
  writer.Begin("files");
  writer.Begin("blocks");
  CheckOk(writer.Finish());

  CheckpointIndex index;
  CheckOk(ReadIndex(
      path, [](const CheckpointIndex&, const StoredBlock&) { return true; }, &index));
  CHECK(index.format == kCheckpointFormat);
  CHECK(index.library == "1.2.3");
  CHECK(index.world == 4);
  REQUIRE(index.groups.size() == 1);
  CHECK(index.groups[0] == group);
  REQUIRE(index.params.size() == 2);
  CHECK(index.params[0].name == "weight");
  CHECK(index.params[1].name == "bias");
  CHECK(index.params[1].shape == Shape::Of({2, 3}));
  CHECK(index.params[1].dtype == Dtype::kBf16);
  CHECK(index.files.empty());
  CHECK(index.blocks.empty());
}

TEST_CASE("if an index cannot be created or written, IndexWriter returns an error") {
  IndexWriter writer;
  CheckError(writer.Create("/dev/null/index.json", "1.2.3", 1), Code::kIo, "/dev/null/index.json");
  CheckOk(writer.Create("/dev/full", "1.2.3", 1));
  writer.Begin("groups");
  writer.Add("{}");
  CheckError(writer.Finish(), Code::kIo, "/dev/full");
}

}  // namespace
}  // namespace shampoo
