// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/golden/case_config.h"

namespace shampoo::golden {

// Returns the config for `group`, an element of the array "groups" in a case of the suite "trajectory_extra". These
// cases were recorded from the release of August 2026 of Distributed Shampoo. Throws if this function does not support
// an option of the group or the value of an option. order: the number of dims of the group's parameters.
Config LaterReleaseConfig(const nlohmann::json& group, int order);

}  // namespace shampoo::golden
