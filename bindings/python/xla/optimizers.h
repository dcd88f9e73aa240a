// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers of a process by the text of their plan. The text says all that an optimizer is made of, so that one can be
// made anew at any time: in another process, for an executable that came out of a cache, after it was let go. What a
// step needs to remember is in the arena, which the caller brings.
#ifndef SHAMPOO_PYTHON_XLA_OPTIMIZERS_H
#define SHAMPOO_PYTHON_XLA_OPTIMIZERS_H

#include <shampoo/shampoo.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shampoo_xla {

/** A failure of a call of the library; thrown inside of a handler, and never out of it. */
struct Failure {
  shampoo_status status;
  std::string text;
};

/** Throws where status is one: the text is of the call that was made last on this thread. */
void Check(shampoo_status status);

template <auto Destroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
using Config = std::unique_ptr<shampoo_config, Destroyer<shampoo_config_destroy>>;
using Plan = std::unique_ptr<shampoo_plan, Destroyer<shampoo_plan_destroy>>;
using Optimizer = std::unique_ptr<shampoo_optimizer, Destroyer<shampoo_optimizer_destroy>>;

/** Where an optimizer works: device_type and device_id as in the header, and a stream on CUDA. */
struct Place {
  int32_t device_type = SHAMPOO_CPU;
  int32_t device_id = 0;
  void* stream = nullptr;
};

/** Makes an optimizer whose state lies at arena, where it is initialised. */
Optimizer Make(std::string_view text, const Place& place, void* arena, size_t bytes);

/** One optimizer, made when it is first used, and the buffers that are bound to it. */
struct Slot {
  std::mutex mutex;
  Optimizer optimizer;
  std::vector<shampoo_buffers> buffers;
};

/** That of a text on a device; it lives while somebody uses it, or holds the text. */
std::shared_ptr<Slot> Find(std::string_view text, const Place& place);

/** Keeps the optimizers of a text, until it is let go as often. */
void Hold(std::string_view text);
void LetGo(std::string_view text);

}  // namespace shampoo_xla

#endif  // SHAMPOO_PYTHON_XLA_OPTIMIZERS_H
