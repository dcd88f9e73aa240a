// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/backend/buffers.h"
#include "core/base/status.h"
#include "core/plan/plan.h"

namespace shampoo {

// Fails if an array of this dtype cannot start at this address. name: the name of the array in the error message.
Status CheckAlignment(std::string_view name, const void* start, Dtype dtype);

// The caller's buffers of all parameters of a plan.
class BoundBuffers {
 public:
  // The plan must outlive this object.
  explicit BoundBuffers(const PlanData& plan) : plan_(plan), buffers_(plan.params.size()), bound_(plan.params.size()) {}

  // Checks that the numbers in [first, first + count) are indices of parameters of the plan.
  Status CheckRange(int first, int count) const;
  // Binds the buffers of consecutive parameters, beginning with parameter `first`. If an element of `buffers` is
  // invalid, returns an error and binds nothing.
  Status Bind(int first, std::span<const Buffers> buffers);
  // Fails if the caller has never bound buffers of a parameter that has elements on this rank.
  Status CheckAllBound() const;

  // Returns the buffers by parameter. The `Buffers` elements keep their addresses as long as this object exists.
  std::span<const Buffers> all() const { return buffers_; }
  // Returns whether this rank holds elements of the parameter and the caller has bound a gradient for them.
  bool HasGradient(const Param& param) const {
    return param.elements > 0 && buffers_[static_cast<size_t>(&param - plan_.params.data())].grad != nullptr;
  }

 private:
  const PlanData& plan_;
  std::vector<Buffers> buffers_;
  std::vector<bool> bound_;
};

}  // namespace shampoo
