// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <shampoo/shampoo.h>

#include <cstdint>

namespace bench {

// About, per d^3: 9 for the eigendecomposition, 1 to 2 to put the root together.
inline constexpr double kRootFlops = 10;

// What a part of a step has to compute and to move at least: flops as a product of symmetric result is counted (one
// triangle), bytes as if everything were read and written once.
struct Work {
  double flops = 0;
  double bytes = 0;
};

// One step with roots of all blocks. For a block of dims d_k with N elements, the first three of one with factor
// matrices:
//   factor update     sum d_k N              gradient; one triangle of each factor, read and written
//   roots             sum 10 d_k^3           (about: it depends on the method; for information)
//   preconditioning   sum 2 d_k N            filtered gradient and direction; each inverse
//   elementwise       20 N                   gradient; parameter and the states of its shape, read and written
//   check             -                      gradient
struct StepWork {
  int64_t parameters = 0;
  int64_t blocks = 0;
  Work check;
  Work factor_update;
  Work roots;
  Work preconditioning;
  Work elementwise;

  // Of an ordinary step, as the targets count: products alone.
  double ProductFlops() const { return factor_update.flops + preconditioning.flops; }
};

// plan: finished, of float32 parameters and gradients; optimizer: made from it.
StepWork WorkOf(const shampoo_plan* plan, const shampoo_optimizer* optimizer);

}  // namespace bench
