// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that enables floating-point traps, also on the threads on which it runs tasks of the library. Checks that
// no call causes a trap and that results are bit-identical to those without traps. When a call returns, the enabled
// traps and the exception flags must be as before the call.
#define _GNU_SOURCE
#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <shampoo/shampoo.h>
#include <stdlib.h>
#include <string.h>

#include "tests/embed/own_threads.h"
#include "tests/embed/require.h"

enum { ROWS = 150, COLUMNS = 40, ELEMENTS = ROWS * COLUMNS, STEPS = 4 };

// The traps that are enabled and the exception flags that are raised before a call.
typedef struct mode {
  const char* name;
  int traps;
  int flags;
} mode;

static const mode kPlain = {"nothing", 0, 0};
// All traps except that of FE_INEXACT, which nearly every operation raises. Before a call, only the flag FE_INEXACT is
// raised, because a raised flag whose trap is enabled causes a signal.
static const mode kTraps = {"traps", FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW, FE_INEXACT};
static const mode kFlags = {"flags", 0, FE_INVALID | FE_OVERFLOW};

static mode host;

static void enter(void) {
  feclearexcept(FE_ALL_EXCEPT);
  feraiseexcept(host.flags);
  // Some processors raise FE_INEXACT together with FE_OVERFLOW, so this call clears all flags except host.flags.
  feclearexcept(FE_ALL_EXCEPT & ~host.flags);
  feenableexcept(host.traps);
}

static void leave(const char* call) {
  const int traps = fegetexcept();
  const int flags = fetestexcept(FE_ALL_EXCEPT);
  fedisableexcept(FE_ALL_EXCEPT);
  REQUIRE(traps == host.traps, "traps %x after %s, before %x", (unsigned)traps, call, (unsigned)host.traps);
  REQUIRE(flags == host.flags, "flags %x after %s, before %x", (unsigned)flags, call, (unsigned)host.flags);
}

#define CALL_GIVES(status, call)                                                                                     \
  do {                                                                                                               \
    enter();                                                                                                         \
    const shampoo_status status_ = (call);                                                                           \
    leave(#call);                                                                                                    \
    REQUIRE(status_ == (status), "%s returns %d, \"%s\"", #call, (int)status_, status_ ? shampoo_last_error() : ""); \
  } while (0)
#define CALL(call) CALL_GIVES(SHAMPOO_OK, call)

typedef struct trapping_task {
  void (*task)(void* argument, int64_t i);
  void* argument;
} trapping_task;

static void run_trapping(void* user, int64_t i) {
  const trapping_task* const one = user;
  enter();
  one->task(one->argument, i);
  leave("a task of the library");
}

static void on_own_threads(void* user, void (*task)(void* argument, int64_t i), void* argument, int64_t count) {
  trapping_task trapping = {task, argument};
  (void)user;
  run_on_own_threads(run_trapping, &trapping, count);
}

static float numbers[2][ELEMENTS];  // numbers[0] is the parameter, numbers[1] its gradient

static void fill(void) {
  unsigned seed = 7;
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < ELEMENTS; ++i) {
      seed = seed * 1664525u + 1013904223u;
      numbers[k][i] = (float)((int)(seed >> 8) % 2000 - 1000) / 977;
    }
  }
}

static uint64_t hash_of(const void* bytes, size_t count) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < count; ++i) hash = (hash ^ ((const unsigned char*)bytes)[i]) * 1099511628211u;
  return hash;
}

// Trains and returns a hash of the parameter. The parameter has more rows than columns, and its gradient is the same in
// every step. The factor matrix of the rows is therefore rank-deficient, which causes overflows in iterative root
// methods.
static uint64_t train(const char* root_method, int threads, int own_threads) {
  shampoo_config* config;
  shampoo_plan* plan;
  shampoo_optimizer* optimizer;
  fill();
  CALL(shampoo_config_create(&config));
  CALL(shampoo_config_set_str(config, "root_method", root_method));
  CALL(shampoo_config_set_str(config, "grafting", "adam"));
  CALL(shampoo_config_set_f64(config, "momentum", 0.9));
  CALL(shampoo_config_set_f64(config, "beta2", 0.99));
  CALL(shampoo_config_set_f64(config, "epsilon", 1e-8));
  CALL(shampoo_config_set_str(config, "use_merge_dims", "false"));
  CALL(shampoo_config_set_str(config, "precondition_frequency", "1"));
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = threads;
  CALL(shampoo_plan_create(&plan, config, &plan_desc));
  shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
  param.name = "w";
  param.ndim = 2;
  param.shape[0] = ROWS;
  param.shape[1] = COLUMNS;
  CALL(shampoo_plan_add_param(plan, &param, NULL));
  CALL(shampoo_plan_finish(plan));
  shampoo_executor executor = SHAMPOO_EXECUTOR_INIT;
  executor.threads = threads;
  executor.parallel_for = on_own_threads;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  if (own_threads) desc.executor = &executor;
  CALL(shampoo_optimizer_create(&optimizer, plan, &desc));
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = buffers.out = numbers[0];
  buffers.grad = numbers[1];
  CALL(shampoo_optimizer_bind(optimizer, 0, 1, &buffers));
  for (int step = 0; step < STEPS; ++step) CALL(shampoo_optimizer_step(optimizer, NULL));
  // Rejecting an argument that is NaN, or too large or too small for float32, must not cause a trap either.
  CALL_GIVES(SHAMPOO_E_INVALID, shampoo_optimizer_set(optimizer, 0, "lr", (double)NAN));
  CALL_GIVES(SHAMPOO_E_INVALID, shampoo_optimizer_set(optimizer, 0, "gradient_scale", 1e300));
  CALL_GIVES(SHAMPOO_E_INVALID, shampoo_optimizer_set(optimizer, 0, "gradient_scale", 1e-300));
  numbers[1][7] = NAN;
  CALL_GIVES(SHAMPOO_E_NUMERIC, shampoo_optimizer_step(optimizer, NULL));
  enter();
  shampoo_optimizer_destroy(optimizer);
  shampoo_plan_destroy(plan);
  shampoo_config_destroy(config);
  leave("destroy");
  return hash_of(numbers[0], sizeof numbers[0]);
}

static uint64_t invert(void) {
  static float matrix[COLUMNS * COLUMNS], root[COLUMNS * COLUMNS];
  shampoo_config* config;
  memset(matrix, 0, sizeof matrix);
  for (int i = 0; i < COLUMNS; ++i) matrix[i * COLUMNS + i] = i < 3 ? 1e-38f : i < 6 ? 1e38f : 0;
  CALL(shampoo_config_create(&config));
  CALL(shampoo_config_set_str(config, "root_method", "newton"));
  CALL(shampoo_matrix_inverse_root(config, COLUMNS, SHAMPOO_F32, matrix, root, 4, 1, NULL));
  shampoo_config_destroy(config);
  return hash_of(root, sizeof root);
}

static uint64_t orthogonalize(void) {
  static float matrix[COLUMNS * COLUMNS], x[COLUMNS * COLUMNS];
  shampoo_config* config;
  for (int i = 0; i < COLUMNS * COLUMNS; ++i) matrix[i] = i % 3 == 0 ? 1e-38f : i % 7 == 0 ? 1e38f : 0;
  CALL(shampoo_config_create(&config));
  CALL(shampoo_config_set_str(config, "method", "muon"));
  CALL(shampoo_matrix_orthogonalize(config, COLUMNS, COLUMNS, SHAMPOO_F32, matrix, x));
  shampoo_config_destroy(config);
  return hash_of(x, sizeof x);
}

static void require_same(const char* what, uint64_t hash, uint64_t expected) {
  REQUIRE(hash == expected, "%s with %s: %016" PRIx64 ", without %016" PRIx64, what, host.name, hash, expected);
}

int main(void) {
  if (feenableexcept(kTraps.traps) == -1 || fegetexcept() != kTraps.traps) {
    fprintf(stderr, "This processor has no floating-point traps.\n");
    return SKIPPED;
  }
  fedisableexcept(FE_ALL_EXCEPT);
  const char* const methods[] = {"eigen", "newton", "higher_order"};
  const mode modes[] = {kTraps, kFlags};
  for (int m = 0; m < 2; ++m) {
    for (int method = 0; method < 3; ++method) {
      for (int threads = 1; threads <= 3; threads += 2) {
        for (int own_threads = 0; own_threads <= 1; ++own_threads) {
          host = kPlain;
          const uint64_t expected = train(methods[method], threads, own_threads);
          host = modes[m];
          require_same(methods[method], train(methods[method], threads, own_threads), expected);
        }
      }
    }
    host = kPlain;
    const uint64_t inverted = invert();
    const uint64_t orthogonal = orthogonalize();
    host = modes[m];
    require_same("shampoo_matrix_inverse_root", invert(), inverted);
    require_same("shampoo_matrix_orthogonalize", orthogonalize(), orthogonal);
  }
  return 0;
}
