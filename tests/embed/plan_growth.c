// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Checks that the library allocates at most about k times as many bytes for k times as many parameters. The test counts
// the bytes separately for four stages: adding parameters, finishing the plan, creating an optimizer, and binding
// buffers and making one step. If the library copied a container for every parameter, for example, the bytes would grow
// with the square of the number of parameters, and the library would be slow for large models. Each count is the sum of
// the sizes in all calls of malloc; free subtracts nothing.
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

#include "tests/embed/api.h"
#include "tests/embed/require.h"

static int64_t allocated;

// The malloc of the C library, under a second name. The replacement below calls it. operator new calls the replacement.
extern void* __libc_malloc(size_t bytes);

void* malloc(size_t bytes) {
  allocated += (int64_t)bytes;
  return __libc_malloc(bytes);
}

typedef struct growth {
  int64_t add, finish, create, bind_and_step;  // bytes
} growth;

static growth measure(const api* f, int params) {
  shampoo_config* config = NULL;
  REQUIRE_OK(f, f->config_create(&config));
  REQUIRE_OK(f, f->config_set_str(config, "grafting", "adam"));
  shampoo_plan* plan = NULL;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = 1;
  REQUIRE_OK(f, f->plan_create(&plan, config, &plan_desc));
  f->config_destroy(config);
  growth bytes;
  allocated = 0;
  for (int i = 0; i < params; ++i) {
    char name[16];
    snprintf(name, sizeof name, "%d", i);
    shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
    param.name = name;
    param.ndim = 1;
    param.shape[0] = 1 + i % 4;
    REQUIRE_OK(f, f->plan_add_param(plan, &param, NULL));
  }
  bytes.add = allocated;
  allocated = 0;
  REQUIRE_OK(f, f->plan_finish(plan));
  bytes.finish = allocated;
  allocated = 0;
  shampoo_optimizer* optimizer = NULL;
  shampoo_optimizer_desc desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  REQUIRE_OK(f, f->optimizer_create(&optimizer, plan, &desc));
  bytes.create = allocated;
  float weights[4] = {1, 1, 1, 1};
  float gradient[4] = {1, 1, 1, 1};
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  buffers.param = buffers.out = weights;
  buffers.grad = gradient;
  allocated = 0;
  for (int i = 0; i < params; ++i) REQUIRE_OK(f, f->optimizer_bind(optimizer, i, 1, &buffers));
  REQUIRE_OK(f, f->optimizer_step(optimizer, NULL));
  bytes.bind_and_step = allocated;
  f->optimizer_destroy(optimizer);
  f->plan_destroy(plan);
  return bytes;
}

static void check(const char* what, int64_t few, int64_t many, int times) {
  printf("%-16s %12lld bytes, %12lld for %d times as many parameters\n", what, (long long)few, (long long)many, times);
  // Allows 25 % more than proportional growth, because containers grow by doubling.
  REQUIRE(many <= few * times + few * times / 4, "%s: %lld bytes grow to %lld", what, (long long)few, (long long)many);
}

int main(void) {
  enum { kFew = 1024, kTimes = 8 };
  const api f = api_linked();
  (void)measure(&f, 1);  // makes the allocations that a process makes only once
  const growth few = measure(&f, kFew);
  REQUIRE(few.add > 0 && few.create > 0, "%lld bytes: the counter does not work", (long long)few.add);
  const growth many = measure(&f, kFew * kTimes);
  check("adding", few.add, many.add, kTimes);
  check("finish", few.finish, many.finish, kTimes);
  check("create", few.create, many.create, kTimes);
  check("bind and a step", few.bind_and_step, many.bind_and_step, kTimes);
  return 0;
}
