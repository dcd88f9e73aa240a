// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/plan/plan.h"

namespace shampoo {

// Factor matrices whose first inverse roots rest on so few gradients that they cannot be of full rank: in all other
// directions they are epsilon alone, and their roots are large there. One line that counts them and names the worst of
// them; "" where there is none.
std::string TextOfThinFactors(const PlanData& plan);

}  // namespace shampoo
