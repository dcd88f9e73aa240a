// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/faults/failing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace shampoo_test {

std::vector<FileCall> CallsOf(SavingJob* job, int rank, const std::function<void()>& work) {
  std::vector<FileCall> calls;
  job->WatchFiles(rank, [&calls](const FileCall& call) {
    calls.push_back(call);
    return FileFault();
  });
  work();
  job->Undisturbed();
  REQUIRE_MESSAGE(job->All(SHAMPOO_OK), job->Errors());
  return calls;
}

std::vector<int> ErrorsOf(const FileCall& call) {
  if (call.name == "open") {
    if (call.creates) return {EINTR, ENOSPC, EACCES, EDQUOT, EROFS, EMFILE};
    return {EINTR, EACCES, EMFILE, EIO, ENOENT};
  }
  if (call.name == "pwrite") return {EINTR, ENOSPC, EIO, EDQUOT, EFBIG};
  if (call.name == "pread") return {EINTR, EIO};
  if (call.name == "fsync") return {EINTR, EIO, ENOSPC, EDQUOT};
  if (call.name == "close") return {EINTR, EIO, ENOSPC, EDQUOT};
  if (call.name == "rename" || call.name == "mkdir") return {EACCES, ENOSPC, EROFS, EIO};
  if (call.name == "unlink") return {EACCES, EIO};
  if (call.name == "opendir") return {EACCES, EMFILE, ENOMEM};
  return {EIO};
}

std::string ReasonOf(int error) { return std::generic_category().message(error); }

std::string Describe(const FileCall& call) {
  return call.name + " " + std::to_string(call.number) + " of " + BaseName(call.path);
}

FileWatch::Handler FailAt(int64_t number, const FileFault& fault) {
  return [=](const FileCall& call) { return call.number == number ? fault : FileFault(); };
}

Saves::Saves(bool leftovers, const RankSpec& spec) : job(spec), reader_(spec) {
  const std::string pristine = scratch_ / "pristine";
  directory = scratch_ / "saves";
  job.StepTo(3);
  older = job.States();
  job.Save(pristine);
  REQUIRE_MESSAGE(job.All(SHAMPOO_OK), job.Errors());
  names_ = NamesIn(pristine);
  if (leftovers) {
    for (const char* const name :
         {"checkpoint-000002.rank-00000-of-00003.safetensors", "checkpoint-000002.rank-00002-of-00003.safetensors.tmp",
          "checkpoint-000002.json.tmp"}) {
      WriteFile(pristine + "/" + name, "left");
    }
  }
  job.StepTo(4);
  newer = job.States();
  Reset();
}

void Saves::Reset() {
  RemoveAll(directory);
  CopyDirectory(scratch_ / "pristine", directory);
  job.Undisturbed();
  job.NewComm();
}

std::vector<FileCall> Saves::Calls(int rank) {
  Reset();
  return CallsOf(&job, rank, [this] { Save(); });
}

bool Saves::Loads(const std::vector<Bytes>& states) {
  reader_.Load(directory);
  CHECK_MESSAGE(reader_.All(SHAMPOO_OK), reader_.Errors());
  return reader_.All(SHAMPOO_OK) && reader_.States() == states;
}

bool Saves::HasOlderAlone() const {
  const std::vector<std::string> now = NamesIn(directory);
  const std::vector<std::string> pristine = NamesIn(scratch_ / "pristine");
  return std::includes(now.begin(), now.end(), names_.begin(), names_.end()) &&
         std::includes(pristine.begin(), pristine.end(), now.begin(), now.end());
}

std::string Saves::Names() const {
  std::string all;
  for (const std::string& name : NamesIn(directory)) all += name + "\n";
  return all;
}

bool Saves::HasNewer() const {
  const std::vector<std::string> now = NamesIn(directory);
  return std::any_of(now.begin(), now.end(), [this](const std::string& name) {
    return name.ends_with(".json") && !std::binary_search(names_.begin(), names_.end(), name);
  });
}

void Saves::CheckNextSave() {
  job.Undisturbed();
  job.NewComm();
  Save();
  CHECK_MESSAGE(job.All(SHAMPOO_OK), job.Errors());
  CHECK(Loads(newer));
  CHECK(NamesIn(directory).size() == names_.size());
}

}  // namespace shampoo_test
