// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/config/settings.h"

namespace shampoo {

// The names of the known schedules of Newton-Schulz coefficients (the key ns_coefficients).
inline constexpr const char* kNsScheduleNames[] = {"polar_express", "jordan", "quintic", "cubic5"};

// Parses a value of the key ns_coefficients: the name of a known schedule, or a list "a,b,c;a,b,c;..." with the three
// coefficients of each Newton-Schulz step. Returns false for any other string. Sets *canonical to the string
// that shampoo_config_get returns for this value.
bool ParseNsCoefficients(std::string_view text, NsCoefficients* coefficients, std::string* canonical);

}  // namespace shampoo
