// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/capture.h"
#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/faults/saving_job.h"

namespace shampoo_test {

// Returns the file calls that a rank makes in work(), which is a save or a load of the job.
std::vector<FileCall> CallsOf(SavingJob* job, int rank, const std::function<void()>& work);
// Returns values of errno with which the function of this call may fail.
std::vector<int> ErrorsOf(const FileCall& call);
// Returns the message of an errno, such as "No space left on device".
std::string ReasonOf(int error);
// Returns a description of a call for messages, such as "pwrite 11 of checkpoint-000002.json.tmp".
std::string Describe(const FileCall& call);
// Returns a handler that applies the fault to the file call with this number, and to no other call.
FileWatch::Handler FailAt(int64_t number, const FileFault& fault);

// A directory with a checkpoint, and the job that saved the checkpoint and then made another step.
class Saves {
 public:
  // If `leftovers` is true, the directory also contains files like those that a killed save leaves behind.
  explicit Saves(bool leftovers = false, const RankSpec& spec = SmallSpec());

  std::string directory;
  SavingJob job;
  std::vector<Bytes> older, newer;  // states in the first checkpoint, and later states of the job

  void Reset();  // restores the initial files of the directory, and replaces the communicator of the job
  void Save() { job.Save(directory); }
  std::vector<FileCall> Calls(int rank);  // the file calls of this rank in a save
  // Loads the newest checkpoint into another job. Returns whether all ranks of that job then have these states.
  bool Loads(const std::vector<Bytes>& states);
  // Returns whether the directory contains only the first checkpoint and leftovers.
  bool HasOlderAlone() const;
  std::string Names() const;  // the names of the files in the directory, one per line
  bool HasNewer() const;      // whether the directory has the index of a later checkpoint
  // Saves without faults and checks that the directory then contains only the new checkpoint.
  void CheckNextSave();

 private:
  Scratch scratch_;
  SavingJob reader_;
  std::vector<std::string> names_;
};

// Calls check(rank, call, calls) for each rank and for each file call of this rank in a save. `calls` are all file
// calls of this rank in the save. Restores the directory before each check.
template <typename Check>
void ForEachCall(Saves* saves, Check&& check) {
  for (const int rank : {0, 1}) {
    const std::vector<FileCall> calls = saves->Calls(rank);
    REQUIRE(!calls.empty());
    for (const FileCall& call : calls) {
      CAPTURE_ALL(rank, Describe(call));
      saves->Reset();
      check(rank, call, calls);
    }
  }
}

}  // namespace shampoo_test
