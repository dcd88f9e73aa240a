// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Tests that a load fails if files of the checkpoint were changed, truncated or exchanged. The error names the file,
// and the load changes no state.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/capture.h"
#include "tests/checkpoint/faults/failing.h"
#include "tests/distributed/require.h"

namespace shampoo_test {
namespace {

// Returns the names of the tensors in a safetensors file. The key of each name is the offset of the tensor's data in
// the file.
std::map<size_t, std::string> TensorsOf(const std::string& bytes) {
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t start = sizeof header + header;
  std::map<size_t, std::string> tensors;
  const auto all = nlohmann::json::parse(bytes.substr(sizeof header, header));
  for (const auto& [name, description] : all.items()) {
    if (name != "__metadata__") tensors[start + description.at("data_offsets").at(0).get<size_t>()] = name;
  }
  return tensors;
}

// A checkpoint of two ranks, and two jobs of one rank each, which load the checkpoint. One of the jobs is new, and the
// other has already made steps.
class Damaged {
 public:
  Damaged() : fresh_(SmallSpec(), 1), stepped_(SmallSpec(), 1) {
    stepped_.StepTo(5);
    for (SavingJob* const job : {&fresh_, &stepped_}) before_.push_back(job->Everything());
    for (const std::string& name : NamesIn(saves_.directory)) files_[name] = BytesOf(PathOf(name));
  }
  const std::map<std::string, std::string>& files() const { return files_; }
  Saves& saves() { return saves_; }
  std::string PathOf(const std::string& name) const { return saves_.directory + "/" + name; }

  // Checks that a load fails if the file has these bytes, and that the error contains the path of the file and `says`.
  void CheckFile(const std::string& name, const std::string& bytes, const std::string& says) {
    WriteFile(PathOf(name), bytes);
    CheckFails(PathOf(name), says);
    WriteFile(PathOf(name), files_.at(name));
  }
  void CheckFails(const std::string& path, const std::string& says) {
    for (size_t i = 0; i < 2; ++i) {
      SavingJob& job = i == 0 ? fresh_ : stepped_;
      job.Load(saves_.directory);
      CheckFailed(&job, SHAMPOO_E_IO, {path, says});
      CHECK(job.Everything() == before_[i]);
    }
  }
  void CheckWhole() {
    SavingJob job(SmallSpec(), 1);
    RequireLoad(&job, saves_.directory);
    CHECK(saves_.Loads(saves_.older));
  }

 private:
  Saves saves_;
  SavingJob fresh_, stepped_;
  std::vector<std::vector<Bytes>> before_;
  std::map<std::string, std::string> files_;
};

// Flips one bit of one file, checks that loads detect it, and restores the file. Does this for every byte, with `bits`
// different bits of the byte. If `bits` is 1, the position of the bit changes from byte to byte.
void FlipBits(size_t bits) {
  Damaged damaged;
  for (const auto& [name, bytes] : damaged.files()) {
    const bool is_index = name.ends_with(".json");
    const std::map<size_t, std::string> tensors = is_index ? std::map<size_t, std::string>() : TensorsOf(bytes);
    for (size_t at = 0; at < bytes.size(); ++at) {
      const auto next = tensors.upper_bound(at);
      const std::string entry = next == tensors.begin() ? "" : "\"" + std::prev(next)->second + "\"";
      for (size_t bit = 0; bit < bits; ++bit) {
        CAPTURE_ALL(name, at);
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ (1 << ((at + bit) % 8)));
        damaged.CheckFile(name, changed, entry);
      }
    }
  }
  damaged.CheckWhole();
}

TEST_CASE("flipping one bit of any byte is detected, and the error names the damaged state") { FlipBits(1); }

TEST_SUITE("long") {
  TEST_CASE("flipping any bit of any byte is detected, and the error names the damaged state") { FlipBits(8); }
}

TEST_CASE("a file that is cut off anywhere or has additional bytes is detected") {
  Damaged damaged;
  for (const auto& [name, bytes] : damaged.files()) {
    CAPTURE(name);
    for (size_t size = 0; size < bytes.size(); ++size) damaged.CheckFile(name, bytes.substr(0, size), "");
    for (const char* const more : {"\n", " ", "}", "{}", "0123456789abcdef"}) {
      damaged.CheckFile(name, bytes + more, "");
      damaged.CheckFile(name, more + bytes, "");
    }
    damaged.CheckFile(name, bytes + std::string(1, '\0'), "");
    damaged.CheckFile(name, std::string(bytes.size(), '\0'), "");
  }
  damaged.CheckWhole();
}

TEST_CASE("both ranks report damage that one of them detected") {
  Saves saves;
  SavingJob job;
  job.StepTo(5);
  const std::vector<Bytes> before = job.Everything();
  for (const std::string& name : NamesIn(saves.directory)) {
    const std::string path = saves.directory + "/" + name;
    const std::string bytes = BytesOf(path);
    for (size_t at = 0; at < bytes.size(); at += 97) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 4);
      WriteFile(path, changed);
      job.Load(saves.directory);
      CheckFailed(&job, SHAMPOO_E_IO, {path});
      CHECK(job.Everything() == before);
    }
    WriteFile(path, bytes);
  }
  CHECK(saves.Loads(saves.older));
}

TEST_CASE("a missing file, a file of another rank and a file of another checkpoint are detected") {
  Damaged damaged;
  const std::map<std::string, std::string>& files = damaged.files();
  const std::string index = files.begin()->first;
  const std::string first = std::next(files.begin())->first;
  const std::string second = files.rbegin()->first;
  REQUIRE(index.ends_with(".json"));
  for (const std::string& name : {first, second}) {
    RemoveAll(damaged.PathOf(name));
    damaged.CheckFails(damaged.PathOf(name), ReasonOf(ENOENT));
    WriteFile(damaged.PathOf(name), files.at(name));
  }
  RemoveAll(damaged.PathOf(index));
  damaged.CheckFails(damaged.saves().directory, "unfinished");
  WriteFile(damaged.PathOf(index), files.at(index));
  damaged.CheckWhole();

  WriteFile(damaged.PathOf(first), files.at(second));
  WriteFile(damaged.PathOf(second), files.at(first));
  damaged.CheckFails(damaged.PathOf(first), "");
  WriteFile(damaged.PathOf(first), files.at(first));
  damaged.CheckFails(damaged.PathOf(second), "");
  WriteFile(damaged.PathOf(second), files.at(second));
  damaged.CheckWhole();

  // Files of the next checkpoint have the same tensors at the same offsets as files of this one, so only checksums
  // detect a file of this checkpoint in the next one.
  damaged.saves().Save();
  const std::vector<std::string> next = NamesIn(damaged.saves().directory);
  REQUIRE(next.size() == 3);
  const std::string next_first = BytesOf(damaged.PathOf(next[1]));
  REQUIRE(files.at(first).size() == next_first.size());
  WriteFile(damaged.PathOf(next[1]), files.at(first));
  damaged.CheckFails(damaged.PathOf(next[1]), "checksum does not match");
  WriteFile(damaged.PathOf(next[2]), files.at(second));
  damaged.CheckFails(damaged.PathOf(next[1]), "checksum does not match");
  WriteFile(damaged.PathOf(next[1]), next_first);
  damaged.CheckFails(damaged.PathOf(next[2]), "checksum does not match");
}

// A type of file that is not a regular file, and a function that creates such a file.
struct OddFile {
  const char* kind;  // the name of the type in the error
  void (*make)(const std::string& path);
};
const OddFile kOddFiles[] = {
    {"a FIFO", [](const std::string& path) { REQUIRE(mkfifo(path.c_str(), 0600) == 0); }},
    {"a directory", [](const std::string& path) { MakeDirectory(path); }},
    {"a device", [](const std::string& path) { REQUIRE(symlink("/dev/zero", path.c_str()) == 0); }},
    {"a device", [](const std::string& path) { REQUIRE(symlink("/dev/null", path.c_str()) == 0); }},
    {"a socket", [](const std::string& path) { REQUIRE(mknod(path.c_str(), S_IFSOCK | 0600, 0) == 0); }}};

TEST_CASE("both ranks reject a file that is not a regular file, without waiting for the writer of a FIFO") {
  Damaged damaged;
  SavingJob job;
  for (const OddFile& odd : kOddFiles) {
    for (const auto& [name, bytes] : damaged.files()) {
      const std::string path = damaged.PathOf(name);
      CAPTURE_ALL(path, odd.kind);
      RemoveAll(path);
      odd.make(path);
      damaged.CheckFails(path, std::string("is not a regular file, it is ") + odd.kind);
      job.Load(damaged.saves().directory);
      CheckFailed(&job, SHAMPOO_E_IO, {"is not a regular file"});
      // A load also accepts the path of the index instead of the directory. A load of this path must fail, too.
      if (name.ends_with(".json") && odd.kind != std::string("a directory")) {
        job.Load(path);
        CheckFailed(&job, SHAMPOO_E_IO, {"is not a regular file"});
      }
      RemoveAll(path);
      REQUIRE(unlink(path.c_str()) != 0);
      WriteFile(path, bytes);
    }
  }
  damaged.CheckWhole();
}

TEST_CASE("a load waits for a file on which another process has a lease") {
  Saves saves;
  SavingJob job;
  int refused = 0;
  // On Linux, open() with O_NONBLOCK fails with EWOULDBLOCK while another process has a lease on the file. The test
  // makes the first open() fail with this error.
  job.WatchFiles(0, [&refused](const FileCall& call) {
    const bool is_first = call.name == "open" && ++refused == 1;
    return FileFault{.error = is_first ? EWOULDBLOCK : 0};
  });
  RequireLoad(&job, saves.directory);
  CHECK(refused > 1);
  CHECK(job.States() == saves.older);
}

TEST_CASE("loading a file that is not an index fails and the error says what to pass instead") {
  Damaged damaged;
  SavingJob job(SmallSpec(), 1);
  for (const char* text : {"", "42\n", "{\"step\": 42}"}) {
    const std::string other = damaged.PathOf("latest.txt");
    WriteFile(other, text);
    job.Load(other);
    CheckFailed(&job, SHAMPOO_E_IO, {"does not begin like the index of a checkpoint"});
    RemoveAll(other);
  }
  for (const auto& [name, bytes] : damaged.files()) {
    job.Load(damaged.PathOf(name));
    if (name.ends_with(".json")) {
      RequireOk(job);
      continue;
    }
    CheckFailed(&job, SHAMPOO_E_IO,
                {damaged.PathOf(name), "does not begin like the index of a checkpoint", "pass the directory"});
  }
}

}  // namespace
}  // namespace shampoo_test
