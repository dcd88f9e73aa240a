// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shampoo_test {

// A temporary directory of a test. The destructor removes the directory and its contents.
class Scratch {
 public:
  enum class On { kMemory, kDisk };  // kMemory: in a memory file system, if there is one, because syncs are fast there
  explicit Scratch(On on = On::kMemory);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::vector<std::string> NamesIn(const std::string& directory);  // the names of the files, sorted
std::string BytesOf(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);
void MakeDirectory(const std::string& path);
void RemoveAll(const std::string& path);                             // works even while other threads create files
void CopyDirectory(const std::string& from, const std::string& to);  // `to` must not exist
// Returns "checkpoint-000001.json" for "/tmp/a/checkpoint-000001.json".
std::string BaseName(const std::string& path);
int OpenDescriptors();  // the number of open file descriptors of the process, including one that this call opens

}  // namespace shampoo_test
