// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/config/settings.h"
#include "core/plan/plan.h"
#include "core/rules/bound_scalars.h"

namespace shampoo {

// A hyper-parameter that every step reads from memory of the caller.
struct BoundScalar {
  const void* value = nullptr;  // nullptr: not bound
  Dtype dtype = Dtype::kF32;

  // Returns the number. `value` must point to host memory.
  double Read() const;
};

// The current hyper-parameters of all groups: those of the plan, with the changes by Set() and by bound scalars.
class HyperParameters {
 public:
  // scalar_alignment: the largest alignment in bytes that bound scalars need. If the host reads the scalars, pass 1,
  // because the host copies their bytes.
  HyperParameters(const PlanData& plan, size_t scalar_alignment);

  size_t group_count() const { return groups_.size(); }
  // Returns the settings of a group. They contain the values of bound scalars only after StoreBoundScalars(). The
  // reference stays valid as long as this object exists.
  const Settings& settings(size_t group) const { return groups_[group].settings; }
  // Returns the bound scalars of a group, indexed by the number of the key (core/rules/bound_scalars.h).
  std::span<const BoundScalar> bound(size_t group) const { return groups_[group].bound; }
  // Returns the settings that a step would use now. Reads bound scalars, which must be in host memory.
  GroupSettings InForce(size_t group) const;

  Status Get(int group, const char* name, double* value) const;
  // Changes a value. Sets *roots_depend_on_it to whether the new value differs from the old value and inverse roots
  // depend on the key.
  Status Set(int group, const char* name, double value, bool* roots_depend_on_it);
  // Binds a key of core/rules/bound_scalars.h to memory of the caller. If value is nullptr, removes the binding.
  Status Bind(int group, const char* name, int dtype, const void* value);

  // Checks the values of all bound scalars, which must be in host memory.
  Status CheckBoundScalars() const;
  // Returns the error for a bound value that a device rejected.
  Status RejectScalar(size_t group, const char* name, double value) const;
  // Copies the values of bound scalars, which must be in host memory, to settings().
  void StoreBoundScalars();
  // Returns a hash of the values of all keys that Set() can change. reads_bound_scalars: whether the hash uses the
  // current values of bound scalars instead of the values in settings().
  uint64_t Hash(bool reads_bound_scalars) const;

 private:
  struct Group {
    Settings settings;
    Dtype narrowest = Dtype::kF64;  // the narrowest computation dtype of the group's blocks
    std::array<BoundScalar, kBindableKeys> bound;
  };
  Status CheckGroup(int group) const;
  Status CheckScalar(const Group& group, const char* name, double value) const;

  const PlanData& plan_;
  size_t scalar_alignment_;
  std::vector<Group> groups_;
};

}  // namespace shampoo
