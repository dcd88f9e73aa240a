// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capi/tools/ckpt/arguments.h"

namespace shampoo::ckpt {

// Runs the command verify: prints the result to stdout, and sets *exit to kProblemFound if the checkpoint is damaged.
// Returns an error if the checkpoint cannot be verified, for example because it does not exist.
Status Verify(const Arguments& arguments, ExitCode* exit);

}  // namespace shampoo::ckpt
