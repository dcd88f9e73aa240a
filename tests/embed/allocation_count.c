// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that a step of method shampoo does not allocate memory, in 80 configurations. This program replaces the
// allocation functions of the C library and counts their calls during steps.
// Usage: allocation_count (links the library), or allocation_count_loaded <library> (loads it with dlopen)
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/embed/require.h"
#include "tests/embed/trainer.h"

static atomic_int counting;
static atomic_long counted;
static const char* volatile kind_seen;
static atomic_size_t size_seen;

static void count(const char* kind, size_t bytes) {
  if (!atomic_load(&counting)) return;
  atomic_fetch_add(&counted, 1);
  kind_seen = kind;
  atomic_store(&size_seen, bytes);
}

// The C library also exports its allocation functions under these names, so the replacements below can call them.
// operator new calls the replacements, too.
extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t number, size_t bytes);
extern void* __libc_realloc(void* memory, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void* memory);

void* malloc(size_t bytes) {
  count("malloc", bytes);
  return __libc_malloc(bytes);
}

void* calloc(size_t number, size_t bytes) {
  count("calloc", number * bytes);
  return __libc_calloc(number, bytes);
}

void* realloc(void* memory, size_t bytes) {
  count("realloc", bytes);
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes);
void* memalign(size_t alignment, size_t bytes) {
  count("memalign", bytes);
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  count("aligned_alloc", bytes);
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  count("posix_memalign", bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == NULL ? ENOMEM : 0;
}

void free(void* memory) {
  if (memory != NULL) count("free", 0);
  __libc_free(memory);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  count("mmap", bytes);
  return (void*)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

int munmap(void* address, size_t bytes) {
  count("munmap", bytes);
  return (int)syscall(SYS_munmap, address, bytes);
}

static void begin_count(void) {
  atomic_store(&counted, 0);
  atomic_store(&counting, 1);
}

static long end_count(void) {
  atomic_store(&counting, 0);
  return atomic_load(&counted);
}

static trainer t;
static double learning_rate = 0.05;
static char* arena[2];

// Checks that none of twenty steps allocates. Inverse roots are refreshed in steps 3, 6, 9, ..., because
// check_combination() sets precondition_frequency to 3 and the preset of trainer_plan() has refresh_growth 0. In
// variant 1, start_preconditioning_step of the first group is 5, so this group refreshes in steps 5, 6, 9, .... From
// the eleventh step on, each step reads the state from one arena and writes it to the other.
static void check(const api* f, const workload* work, const char* name) {
  int64_t state_bytes = 0;
  shampoo_plan* const plan = trainer_plan(f, work);
  REQUIRE_OK(f, f->plan_bytes(plan, 0, "state", &state_bytes));
  f->plan_destroy(plan);
  for (int i = 0; i < 2; ++i) {
    arena[i] = aligned_alloc(256, (size_t)state_bytes);
    REQUIRE(arena[i] != NULL, "no memory");
  }
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  desc.state = arena[0];
  desc.state_bytes = (size_t)state_bytes;
  begin_count();
  trainer_begin(&t, f, work, &desc);
  REQUIRE(end_count() > 0, "%s: create has allocated nothing: the counters do not work", name);
  REQUIRE_OK(f, f->optimizer_bind_scalar(t.optimizer, 0, "lr", SHAMPOO_F64, &learning_rate));

  for (int step = 0; step < 20; ++step) {
    if (step >= 10) REQUIRE_OK(f, f->optimizer_bind_state(t.optimizer, arena[step % 2], arena[1 - step % 2]));
    trainer_fill_gradients(&t, step);
    begin_count();
    const shampoo_status status = f->optimizer_step(t.optimizer, NULL);
    const long allocations = end_count();
    REQUIRE_OK(f, status);
    REQUIRE(allocations == 0, "%s: step %d: %ld calls of allocation functions, the last %s of %zu bytes", name,
            step + 1, allocations, kind_seen, atomic_load(&size_seen));
  }
  double roots = 0;
  REQUIRE_OK(f, f->optimizer_stat(t.optimizer, "root_computed", &roots));
  REQUIRE(roots > 0, "%s: no root was computed", name);
  trainer_end(&t);
  for (int i = 0; i < 2; ++i) free(arena[i]);
}

enum { kMaxSettings = 20 };

static void add(setting* settings, const char* key, const char* value) {
  int at = 0;
  while (settings[at].key != NULL) ++at;
  REQUIRE(at + 1 < kMaxSettings, "too many settings");
  settings[at].key = key;
  settings[at].value = value;
}

static void check_combination(const api* f, const char* grafting, int32_t dtype, int variant, int threads) {
  setting first[kMaxSettings] = {{NULL, NULL}};
  setting second[kMaxSettings] = {{NULL, NULL}};
  add(first, "grafting", grafting);
  add(first, "precondition_frequency", "3");
  add(first, "max_preconditioner_dim", "24");
  add(second, "precondition_frequency", "3");
  add(second, "use_merge_dims", "false");
  if (variant == 0) {
    add(first, "epsilon", "1e-6");
  } else {
    const char* const narrow[] = {"factor_dtype", "inverse_dtype", "filtered_grad_dtype", "momentum_dtype",
                                  "grafting_dtype"};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; ++i) add(first, narrow[i], i % 2 == 0 ? "bf16" : "f16");
    add(first, "epsilon", "1e-3");
    add(first, "momentum", "0.9");
    add(first, "use_nesterov", "true");
    add(first, "beta2", "0.99");
    add(first, "weight_decay", "0.01");
    add(first, "weight_decay_type", "coupled");
    add(first, "root_dtype", "f64");
    add(first, "start_preconditioning_step", "5");
    add(second, "output", "updates");
    add(second, "grafting", "sgd");
    add(second, "beta1", "0");
    add(second, "computation_dtype", "f64");
    add(second, "inverse_root_override", "0,2,4");
  }
  workload work = workload_default(threads);
  work.settings = first;
  work.second_group = second;
  work.dtype = dtype;
  char name[200];
  snprintf(name, sizeof name, "grafting %s, dtype %d, variant %d, %d threads", grafting, (int)dtype, variant, threads);
  check(f, &work, name);
}

int main(int argc, char** argv) {
#ifdef LINKED
  (void)argc, (void)argv;
  const api functions = api_linked();
#else
  REQUIRE(argc == 2, "%d arguments: expected the library", argc - 1);
  const api functions = api_open(argv[1]);
#endif
  const char* const graftings[] = {"none", "sgd", "adagrad", "rmsprop", "adam"};
  const int32_t dtypes[] = {SHAMPOO_F32, SHAMPOO_F64, SHAMPOO_BF16, SHAMPOO_F16};
  for (size_t g = 0; g < sizeof graftings / sizeof *graftings; ++g) {
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d) {
      for (int variant = 0; variant < 2; ++variant) {
        for (int threads = 1; threads <= 2; ++threads) {
          check_combination(&functions, graftings[g], dtypes[d], variant, threads);
        }
      }
    }
  }
  return 0;
}
