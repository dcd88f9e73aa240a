// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/backend.h"
#include "core/backend/cpu/slot_memory.h"
#include "core/roots/ladder.h"

namespace shampoo {

// All of a step for one block, on the calling thread.
void StepBlock(const StepItem& item, char* arena, const SlotLayout& layout, char* workspace, RecoveryMemory* recovery);

}  // namespace shampoo
