// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/golden/case_config.h"

namespace shampoo::golden {

// Returns the config for an entry of "groups" in a case of the suite "trajectory_extra", which was recorded from the
// release of August 2026 of Distributed Shampoo. Throws for an option that the library does not have.
// order: the number of dims of the group's parameters.
Config LaterReleaseConfig(const nlohmann::json& group, int order);

}  // namespace shampoo::golden
