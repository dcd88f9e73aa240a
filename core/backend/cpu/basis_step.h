// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cpu/block_step.h"

namespace shampoo {

// Runs the step of one block whose method works in eigenbases: SOAP (arXiv 2409.11321), KL-SOAP or KL-Shampoo
// (arXiv 2509.03378). core/rules/basis.h has the rules.
void StepInBasis(const StepItem& item, const StepMemory& memory, Team::Worker* worker);

}  // namespace shampoo
