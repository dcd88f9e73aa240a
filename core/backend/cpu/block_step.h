// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/backend/backend.h"
#include "core/backend/cpu/slot_memory.h"

namespace shampoo {

// What one slot has seen in a step; incidents are kept to a fixed number, as a step allocates nothing.
struct SlotReport {
  static constexpr int kMostIncidents = 64;
  int64_t roots_computed = 0;
  int64_t incident_count = 0;
  RootIncident incidents[kMostIncidents];

  void Add(const RootIncident& incident) {
    if (incident_count < kMostIncidents) incidents[incident_count] = incident;
    ++incident_count;
  }
};

// All of a step for one block, on the calling thread.
void StepBlock(const StepItem& item, char* arena, const SlotLayout& layout, char* workspace, SlotReport* report);

}  // namespace shampoo
