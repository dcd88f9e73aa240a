// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/checkpoint/faults/files.h"
#include "tests/checkpoint/faults/saving_job.h"

namespace shampoo_test {

// The calls that a rank makes in work(), which is a save or a load of the job.
std::vector<FileCall> CallsOf(SavingJob* job, int rank, const std::function<void()>& work);
// The ways in which such a call may fail: values of errno.
std::vector<int> ErrorsOf(const FileCall& call);
// "No space left on device"
std::string ReasonOf(int error);
// "pwrite 11 of checkpoint-000002.json.tmp", for messages.
std::string Describe(const FileCall& call);
// One call fails; the others are made.
FileWatch::Tell FailAt(int64_t number, const FileFault& fault);

// Directories with a checkpoint of one step, and a job that is one step further.
class Saves {
 public:
  // leftovers: the directory has files of saves that were killed, too.
  explicit Saves(bool leftovers = false, const RankSpec& spec = SmallSpec());

  std::string directory;
  SavingJob job;
  std::vector<Bytes> older, newer;  // states of the checkpoint, and of the job

  void Reset();  // the directory and the job's communicator, as they were
  void Save() { job.Save(directory); }
  std::vector<FileCall> Calls(int rank);  // of a save
  // Whether all ranks of another job load these states.
  bool Loads(const std::vector<Bytes>& states);
  // Whether there is nothing in the directory but the older checkpoint, and leftovers.
  bool HasOlderAlone() const;
  std::string Names() const;  // of what is in the directory
  bool HasNewer() const;      // whether the new checkpoint has an index
  // Saves without faults: there is nothing in the directory but the new checkpoint then.
  void CheckNextSave();

 private:
  Scratch scratch_;
  SavingJob reader_;
  std::vector<std::string> names_;
};

}  // namespace shampoo_test
