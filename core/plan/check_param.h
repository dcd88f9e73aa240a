// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/status.h"
#include "core/plan/block.h"

namespace shampoo {

// "(3, 4, 5)"
std::string ShapeText(const Shape& shape);

// Everything about a parameter that can be wrong by itself: name, shape, shard. On success *elements is the number of
// elements in the caller's buffers.
Status CheckParamDesc(const ParamDesc& desc, int64_t* elements);

// The same for the fields that describe a shard alone.
Status CheckShard(const ParamDesc& desc, int64_t* elements);

}  // namespace shampoo
