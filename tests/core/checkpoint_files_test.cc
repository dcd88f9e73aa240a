// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests functions that read, write, list and name the files of a checkpoint.
#include "core/checkpoint/checkpoint_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "core/checkpoint/file.h"
#include "tests/core/status_check.h"
#include "tests/core/temporary_directory.h"

namespace shampoo {
namespace {

TEST_CASE("bytes are read back from the position at which they were written") {
  const TemporaryDirectory directory;
  directory.Write("file", "what was there before");
  File file;
  CheckOk(File::Create(directory / "file", &file));
  CheckOk(file.WriteAt(0, "0123456789", 10));
  CheckOk(file.WriteAt(3, "abc", 3));
  file.StartWriting(0, 10);
  CheckOk(file.Sync());
  CheckOk(file.Close());
  File read;
  CheckOk(File::Open(directory / "file", &read));
  CHECK(read.path() == directory / "file");
  int64_t bytes = 0;
  CheckOk(read.Size(&bytes));
  CHECK(bytes == 10);
  char text[5] = {};
  read.StartReading(2, 4);
  CheckOk(read.ReadAt(2, text, 4));
  CHECK(std::string(text) == "2abc");
}

TEST_CASE("a read beyond the end of a file is an error that says where the file ends") {
  const TemporaryDirectory directory;
  directory.Write("file", "0123456789");
  File file;
  CheckOk(File::Open(directory / "file", &file));
  char text[20];
  CheckError(file.ReadAt(4, text, 8), Code::kIo, "ends at byte 10: expected 12 bytes or more; it was truncated");
}

TEST_CASE("a path that is not a regular file is not opened, and the error names the kind of file") {
  const TemporaryDirectory directory;
  File file;
  CheckError(File::Open(directory / "nothing", &file), Code::kIo, "check the path");
  CheckError(File::Open(directory.path(), &file), Code::kIo, "is not a regular file, it is a directory");
  REQUIRE(mkfifo((directory / "fifo").c_str(), 0600) == 0);
  CheckError(File::Open(directory / "fifo", &file), Code::kIo, "it is a FIFO");
  CheckError(File::Open("/dev/null", &file), Code::kIo, "it is a device");
  CheckError(File::Create(directory / "no/file", &file), Code::kIo, "cannot create");
}

TEST_CASE("KindOf distinguishes files, directories and paths at which nothing exists") {
  const TemporaryDirectory directory;
  directory.Write("file", "");
  PathKind kind = PathKind::kNothing;
  CheckOk(KindOf(directory / "file", &kind));
  CHECK(kind == PathKind::kFile);
  CheckOk(KindOf(directory.path(), &kind));
  CHECK(kind == PathKind::kDirectory);
  for (const char* const name : {"nothing", "file/nothing"}) {
    CheckOk(KindOf(directory / name, &kind));
    CHECK(kind == PathKind::kNothing);
  }
  CHECK(PathIn("a", "b") == "a/b");
  CHECK(PathIn("a/", "b") == "a/b");
}

TEST_CASE("MakeDirectory creates a directory or accepts an existing one, and fails if the path is that of a file") {
  const TemporaryDirectory directory;
  CheckOk(MakeDirectory(directory / "new"));
  CHECK(directory.Has("new"));
  CheckOk(MakeDirectory(directory / "new"));
  CheckOk(SyncDirectory(directory / "new"));
  directory.Write("file", "");
  CheckError(MakeDirectory(directory / "file"), Code::kIo, "cannot make the directory");
  CheckError(MakeDirectory(directory / "no/new"), Code::kIo, "cannot make the directory");
  std::vector<std::string> names;
  CheckError(ListDirectory(directory / "no", &names), Code::kIo, "cannot list the directory");
}

TEST_CASE("files are renamed and removed, and removing a missing file succeeds") {
  const TemporaryDirectory directory;
  directory.Write("old", "");
  CheckOk(Rename(directory / "old", directory / "new"));
  CHECK(!directory.Has("old"));
  CheckError(Rename(directory / "old", directory / "new"), Code::kIo, "cannot rename the file");
  CheckOk(Remove(directory / "new"));
  CHECK(!directory.Has("new"));
  CheckOk(Remove(directory / "new"));
}

TEST_CASE("CheckpointNumber returns the number in the name of a checkpoint file, and -1 for other names") {
  CHECK(IndexName(7) == "checkpoint-000007.json");
  CHECK(StatesName(7, 2, 8, 1) == "checkpoint-000007.rank-00002-of-00008.safetensors");
  CHECK(StatesName(7, 2, 8, 3) == "checkpoint-000007.rank-00002-of-00008.part-3.safetensors");
  CHECK(IndexName(12345678) == "checkpoint-12345678.json");
  bool is_index = false;
  for (const std::string& name : {IndexName(7), IndexName(kLargestNumber)}) {
    CHECK(CheckpointNumber(name, &is_index) > 0);
    CHECK(is_index);
  }
  for (const std::string& name :
       {IndexName(7) + kTemporary, StatesName(7, 0, 1, 1), StatesName(7, 0, 1, 2) + kTemporary}) {
    CHECK(CheckpointNumber(name, &is_index) == 7);
    CHECK(!is_index);
  }
  for (const std::string& name :
       {std::string("checkpoint-7.json"), std::string("checkpoint-0000007.json"), std::string("checkpoint-000000.json"),
        std::string("checkpoint--00007.json"), std::string("checkpoint-000007.txt"),
        std::string("checkpoint-000007.json2"), std::string("checkpoint-000007.rank-1"),
        std::string("other-000007.json"), IndexName(kLargestNumber + 1)}) {
    CHECK_MESSAGE(CheckpointNumber(name, &is_index) == -1, name);
    CHECK(!is_index);
  }
}

TEST_CASE("checkpoints are listed by decreasing number, and a checkpoint without an index is not complete") {
  const TemporaryDirectory directory;
  for (const std::string& name :
       {IndexName(2), StatesName(2, 0, 1, 1), IndexName(10), StatesName(11, 0, 1, 1), std::string("notes.txt")}) {
    directory.Write(name, "");
  }
  std::vector<FoundCheckpoint> found;
  CheckOk(FindCheckpoints(directory.path(), &found));
  REQUIRE(found.size() == 3);
  CHECK(found[0].number == 11);
  CHECK(!found[0].complete);
  CHECK(found[1].number == 10);
  CHECK(found[2].number == 2);
  CHECK(found[2].complete);
  CHECK(found[2].names.size() == 2);

  CheckOk(RemoveCheckpoint(directory.path(), found[2]));
  CheckOk(RemoveCheckpoint(directory.path(), found[0]));
  std::vector<std::string> names;
  CheckOk(ListDirectory(directory.path(), &names));
  std::erase_if(names, [](const std::string& name) { return name == "." || name == ".."; });
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{IndexName(10), "notes.txt"});
}

}  // namespace
}  // namespace shampoo
