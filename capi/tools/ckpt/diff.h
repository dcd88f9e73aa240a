// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capi/tools/ckpt/arguments.h"

namespace shampoo::ckpt {

// Fails where it cannot tell, as where a file is damaged.
Status Diff(const Arguments& arguments, ExitCode* exit);

}  // namespace shampoo::ckpt
