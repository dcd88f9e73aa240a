// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capi/tools/ckpt/arguments.h"

namespace shampoo::ckpt {

// Verifies a checkpoint. Reports damage on stdout and in *exit. Returns an error if the checkpoint cannot be verified.
Status Verify(const Arguments& arguments, ExitCode* exit);

}  // namespace shampoo::ckpt
