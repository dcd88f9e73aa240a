// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tests/distributed/thread_comm.h"

namespace shampoo_test {

// A job whose ranks are threads. Each rank saves and loads with its own arguments, so a test can pass a wrong argument
// on one rank.
class World {
 public:
  struct Call {
    std::vector<shampoo_optimizer*> opts;
    const char* directory = nullptr;
    void* stream = nullptr;
    bool passes_opts = true;  // if false, the call passes NULL instead of opts
    int32_t count = kAll;
    static constexpr int32_t kAll = -1000;  // the call passes the number of elements of opts

    shampoo_status status = SHAMPOO_OK;  // result of the last call
    std::string error;
  };

  explicit World(int ranks, int32_t device_type = SHAMPOO_CPU);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Call& operator[](int rank) { return calls_[static_cast<size_t>(rank)]; }
  void Save() { Run(&shampoo_save); }
  void Load() { Run(&shampoo_load); }
  void Save(const std::string& directory);  // all ranks use the same directory
  void Load(const std::string& directory);
  // Returns whether the last call returned this status on all ranks, and no collective has timed out.
  bool All(shampoo_status status) const;
  // Returns whether the error messages of all ranks are equal.
  bool SameError() const;
  std::string Errors() const;

 private:
  void Run(decltype(&shampoo_save) function);
  void SetDirectory(const std::string& directory);

  ThreadComm comm_;
  std::vector<shampoo_comm*> handles_;
  std::vector<Call> calls_;
};

}  // namespace shampoo_test
