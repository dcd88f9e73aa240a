// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <memory>
#include <string>

#include "core/comm/communicator.h"
#include "core/config/config.h"
#include "core/optimizer/optimizer.h"
#include "core/plan/plan.h"

// The definitions of the opaque handles of the public header.

struct shampoo_config {
  shampoo::Config config;
};

struct shampoo_comm {
  std::shared_ptr<shampoo::Communicator> comm;
};

struct shampoo_plan {
  std::unique_ptr<shampoo::Plan> plan;
};

struct shampoo_optimizer {
  std::unique_ptr<shampoo::Optimizer> optimizer;
  std::string last_error;  // the result of shampoo_optimizer_error()
  // shampoo_optimizer_destroy() calls these functions of the caller's shampoo_allocator and shampoo_executor. nullptr:
  // there is nothing to call.
  void (*release_allocator)(void*) = nullptr;
  void* allocator_user = nullptr;
  void (*release_executor)(void*) = nullptr;
  void* executor_user = nullptr;
};
