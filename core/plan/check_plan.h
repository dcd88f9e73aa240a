// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/plan/plan.h"

// Checks of the arguments from which a plan is made. Each function returns an error that names the wrong argument.
namespace shampoo {

// Checks ranks and threads.
Status CheckPlacement(const Placement& placement);

// Checks that the keys of a group are supported on the plan's device.
Status CheckDeviceKeys(const Settings& settings, const Placement& placement);
// Checks that the keys of a group are allowed with the key root_device. default_group: the settings of group 0, which
// contain root_device.
Status CheckRootDevice(const Settings& default_group, const Settings& settings, const Placement& placement);

// Checks those fields of a description that do not depend on other parameters: name, shape, stack_dims and row_splits.
// Calls CheckShard() for the fields that describe the shard. Stores the value for Param::elements in *elements.
Status CheckParamDesc(const ParamDesc& desc, int64_t* elements);

// Checks the fields of a description that describe a shard, and stores the value for Param::elements in *elements. The
// other fields that CheckParamDesc() checks must be valid already.
Status CheckShard(const ParamDesc& desc, int64_t* elements);

}  // namespace shampoo
