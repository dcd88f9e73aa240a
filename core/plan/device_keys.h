// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/plan/plan.h"

namespace shampoo {

// What a step on a device cannot do is refused when a plan is made for one.
Status CheckKeysOfDevice(const Settings& settings, const Placement& placement);

}  // namespace shampoo
