// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/faults/files.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace shampoo_test {
namespace {

namespace fs = std::filesystem;

std::string MakeDirectoryIn(const fs::path& base) {
  std::string path = base / "shampoo_checkpoint_XXXXXX";
  return mkdtemp(path.data()) != nullptr ? path : std::string();
}

}  // namespace

Scratch::Scratch(On on) {
  if (on == On::kMemory) path_ = MakeDirectoryIn("/dev/shm");
  if (path_.empty()) path_ = MakeDirectoryIn(fs::temp_directory_path());
  if (path_.empty()) throw std::runtime_error("no directory can be made in " + fs::temp_directory_path().string());
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " cannot be read");
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  if (!file) throw std::runtime_error(path + " cannot be written");
}

void MakeDirectory(const std::string& path) { fs::create_directory(path); }

void RemoveAll(const std::string& path) {
  std::error_code ignored;
  while (fs::exists(path)) fs::remove_all(path, ignored);
}

void CopyDirectory(const std::string& from, const std::string& to) { fs::copy(from, to, fs::copy_options::recursive); }

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

int OpenDescriptors() {
  const fs::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(fs::begin(all), fs::end(all)));
}

}  // namespace shampoo_test
