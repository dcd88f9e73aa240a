// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace shampoo_test {

// A directory of its own for a test, which is removed with all that is in it.
class Scratch {
 public:
  enum class On { kMemory, kDisk };  // memory: where the system has a file system there; syncs cost nothing then
  explicit Scratch(On on = On::kMemory);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::vector<std::string> NamesIn(const std::string& directory);  // sorted
std::string BytesOf(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);
void MakeDirectory(const std::string& path);
void RemoveAll(const std::string& path);                             // whatever others make in it meanwhile
void CopyDirectory(const std::string& from, const std::string& to);  // which is not there
// "checkpoint-000001.json" of "/tmp/a/checkpoint-000001.json"
std::string BaseName(const std::string& path);
int OpenDescriptors();

}  // namespace shampoo_test
