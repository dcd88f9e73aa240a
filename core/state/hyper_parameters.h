// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/config/settings.h"
#include "core/plan/plan.h"

namespace shampoo {

// A number in memory of the caller that every step reads.
struct BoundScalar {
  const void* value = nullptr;  // nullptr: not bound
  Dtype dtype = Dtype::kF32;

  // Reads host memory.
  double Read() const;
};

// The hyper-parameters in force: those of the plan's groups, changed by Set() and by bound scalars.
class HyperParameters {
 public:
  // scalar_alignment: largest alignment in bytes that bound scalars must have; 1 where the host copies them.
  HyperParameters(const PlanData& plan, size_t scalar_alignment);

  size_t group_count() const { return groups_.size(); }
  // The reference stays valid as long as this object.
  const Settings& settings(size_t group) const { return groups_[group].settings; }
  const BoundScalar& bound_lr(size_t group) const { return groups_[group].lr; }
  const BoundScalar& bound_gradient_scale(size_t group) const { return groups_[group].gradient_scale; }
  // Returns what a step would use now. Bound scalars are read, and must lie in host memory.
  GroupSettings InForce(size_t group) const;

  Status Get(int group, const char* name, double* value) const;
  // roots_depend_on_it: whether the value is new and inverse roots depend on it.
  Status Set(int group, const char* name, double value, bool* roots_depend_on_it);
  // Binds lr or gradient_scale to memory of the caller; value nullptr: ends the binding.
  Status Bind(int group, const char* name, int dtype, const void* value);

  // Checks the values of all bound scalars in host memory.
  Status CheckBoundScalars() const;
  // Returns the error for a bound value that a device rejected.
  Status RejectScalar(size_t group, const char* name, double value) const;
  // Makes the values of bound scalars those in force.
  void StoreBoundScalars();
  // Returns a hash of all values that can be changed. Bound scalars count with their current value, or, without
  // reads_bound_scalars, with the last value in force.
  uint64_t Hash(bool reads_bound_scalars) const;

 private:
  struct Group {
    Settings settings;
    Dtype narrowest = Dtype::kF64;  // of the computation dtypes of its blocks
    BoundScalar lr;
    BoundScalar gradient_scale;
  };
  Status CheckGroup(int group) const;
  Status CheckScalar(const Group& group, const char* name, double value) const;

  const PlanData& plan_;
  size_t scalar_alignment_;
  std::vector<Group> groups_;
};

}  // namespace shampoo
