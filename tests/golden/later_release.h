// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/golden/case_config.h"

namespace shampoo::golden {

// Returns the config of an entry of "groups" in a case of the release of August 2026 ("suite": "trajectory_extra"). An
// option that the library does not have is an error.
// order: the number of dims of the parameters of the group.
Config LaterReleaseConfig(const nlohmann::json& group, int order);

}  // namespace shampoo::golden
