// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "core/base/status.h"

namespace shampoo {

// What work() returns, or its exception as a failure: where a rank has to go on to an exchange that others wait in.
template <typename Work>
Status CatchExceptions(Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory();
  } catch (const std::exception& failure) {
    return Internal(failure.what());
  }
}

}  // namespace shampoo
