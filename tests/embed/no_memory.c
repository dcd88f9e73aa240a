// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that runs out of memory: while is_used_up is 1, every allocation fails. Calls that need memory must return
// SHAMPOO_E_NOMEM. A step must succeed, because it needs no memory. Each call is tried on two new threads, because the
// library might allocate memory for the first error message of a thread. On the second thread, another call has failed
// before the tried call.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

static atomic_int is_used_up;

// The allocation functions of the C library, under second names. The replacements below call them. operator new calls
// the replacements.
extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t number, size_t bytes);
extern void* __libc_realloc(void* memory, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);

static int fails(void) {
  if (!atomic_load(&is_used_up)) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }

void* calloc(size_t number, size_t bytes) { return fails() ? NULL : __libc_calloc(number, bytes); }

void* realloc(void* memory, size_t bytes) { return fails() ? NULL : __libc_realloc(memory, bytes); }

void* memalign(size_t alignment, size_t bytes);
void* memalign(size_t alignment, size_t bytes) { return fails() ? NULL : __libc_memalign(alignment, bytes); }

void* aligned_alloc(size_t alignment, size_t bytes) { return fails() ? NULL : __libc_memalign(alignment, bytes); }

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (fails()) return ENOMEM;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == NULL ? ENOMEM : 0;
}

static api functions;
static trainer t;
static shampoo_config* config;
static shampoo_plan* plan;
static shampoo_plan* open_plan;

static shampoo_status create_config(void) {
  shampoo_config* made = NULL;
  return functions.config_create(&made);
}

static shampoo_status create_config_of_null(void) { return functions.config_create(NULL); }

static shampoo_status set_unknown_key(void) { return functions.config_set_str(config, "no such key", "1"); }

static shampoo_status create_plan(void) {
  shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  shampoo_plan* made = NULL;
  return functions.plan_create(&made, config, &desc);
}

static shampoo_status add_param(void) {
  shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
  desc.name = "a parameter with a name that is too long to be kept without an allocation";
  desc.ndim = 1;
  desc.shape[0] = 3;
  return functions.plan_add_param(open_plan, &desc, NULL);
}

static shampoo_status finish_plan(void) { return functions.plan_finish(open_plan); }

static shampoo_status create_optimizer(void) {
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_optimizer* made = NULL;
  return functions.optimizer_create(&made, plan, &desc);
}

static shampoo_status read_unknown_statistic(void) {
  double value = 0;
  return functions.optimizer_stat(t.optimizer, "no such statistic", &value);
}

static shampoo_status step(void) { return functions.optimizer_step(t.optimizer, NULL); }

typedef struct attempt {
  const char* what;
  shampoo_status (*call)(void);
  shampoo_status expected;
  int has_failed_before;  // whether a call has failed on this thread before, while memory was available
} attempt;

static void* run(void* argument) {
  const attempt* const tried = argument;
  char text[200] = "";
  if (tried->has_failed_before) {
    REQUIRE(create_config_of_null() == SHAMPOO_E_INVALID, "a NULL was accepted");
  } else {
    REQUIRE(*functions.last_error() == '\0', "\"%s\" on a new thread", functions.last_error());
  }
  atomic_store(&is_used_up, 1);
  const shampoo_status status = tried->call();
  strncpy(text, functions.last_error(), sizeof text - 1);
  atomic_store(&is_used_up, 0);
  REQUIRE(status == tried->expected, "%s: status %d, \"%s\"", tried->what, (int)status, text);
  if (status != SHAMPOO_OK) {
    REQUIRE(strstr(text, "out of host memory") != NULL, "%s: \"%s\"", tried->what, text);
    // Memory is available again, so the message of the next error must not be "out of host memory".
    REQUIRE(create_config_of_null() == SHAMPOO_E_INVALID, "a NULL was accepted");
    REQUIRE(strstr(functions.last_error(), "out is NULL") != NULL, "%s: \"%s\"", tried->what, functions.last_error());
  }
  return NULL;
}

int main(void) {
  functions = api_linked();
  const workload work = workload_default(2);
  trainer_begin(&t, &functions, &work, NULL);
  trainer_step(&t, 1);
  trainer_fill_gradients(&t, 1);
  plan = trainer_plan(&functions, &work);
  REQUIRE_OK(&functions, functions.config_create(&config));
  const shampoo_plan_desc desc = SHAMPOO_PLAN_DESC_INIT;
  REQUIRE_OK(&functions, functions.plan_create(&open_plan, config, &desc));

  const attempt attempts[] = {{"config_create", create_config, SHAMPOO_E_NOMEM, 0},
                              {"config_create of NULL", create_config_of_null, SHAMPOO_E_NOMEM, 0},
                              {"config_set_str", set_unknown_key, SHAMPOO_E_NOMEM, 0},
                              {"plan_create", create_plan, SHAMPOO_E_NOMEM, 0},
                              {"plan_add_param", add_param, SHAMPOO_E_NOMEM, 0},
                              {"plan_finish", finish_plan, SHAMPOO_E_NOMEM, 0},
                              {"optimizer_create", create_optimizer, SHAMPOO_E_NOMEM, 0},
                              {"optimizer_stat", read_unknown_statistic, SHAMPOO_E_NOMEM, 0},
                              {"optimizer_step", step, SHAMPOO_OK, 0}};
  for (size_t i = 0; i < sizeof attempts / sizeof *attempts; ++i) {
    for (int before = 0; before < 2; ++before) {
      attempt tried = attempts[i];
      tried.has_failed_before = before;
      pthread_t thread;
      REQUIRE(pthread_create(&thread, NULL, run, &tried) == 0, "no thread");
      pthread_join(thread, NULL);
    }
  }
  functions.plan_destroy(open_plan);
  functions.plan_destroy(plan);
  functions.config_destroy(config);
  trainer_end(&t);
  return 0;
}
