// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capi/tools/ckpt/arguments.h"

namespace shampoo::ckpt {

// Runs the command diff: prints the differences between two checkpoints, and sets *exit to kProblemFound if there are
// differences, otherwise to kSuccess. Returns an error if the checkpoints cannot be compared, for example because a
// file is damaged.
Status Diff(const Arguments& arguments, ExitCode* exit);

}  // namespace shampoo::ckpt
