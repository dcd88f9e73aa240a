// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capi/tools/ckpt/arguments.h"

namespace shampoo::ckpt {

// Fails where it cannot tell. Damage is written to stdout, and is what *exit says.
Status Verify(const Arguments& arguments, ExitCode* exit);

}  // namespace shampoo::ckpt
