// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include "tests/embed/trainer.h"

#include <string.h>

#include "tests/embed/require.h"

static const setting kSettings[] = {
    {"lr", "0.05"},      {"grafting", "adam"},     {"precondition_frequency", "2"}, {"max_preconditioner_dim", "24"},
    {"momentum", "0.5"}, {"use_nesterov", "true"}, {"weight_decay", "0.01"},        {"beta2", "0.99"},
    {NULL, NULL},
};
static const setting kSecondGroup[] = {{"lr", "0.1"}, {"beta1", "0"}, {"use_merge_dims", "false"}, {NULL, NULL}};
static const param_shape kParams[] = {
    {"matrix", 2, {40, 30, 0, 0}, 0, 0}, {"vector", 1, {37, 0, 0, 0}, 0, 0}, {"cube", 3, {6, 5, 7, 0}, 1, 0},
    {"filters", 4, {5, 4, 3, 3}, 1, 0},  {"frozen", 2, {4, 4, 0, 0}, 0, 1},
};

workload workload_default(int32_t threads) {
  const workload made = {kSettings, kSecondGroup, kParams, sizeof kParams / sizeof *kParams, SHAMPOO_F32, threads};
  return made;
}

static shampoo_config* make_config(const api* f, const setting* settings) {
  shampoo_config* config = NULL;
  REQUIRE_OK(f, f->config_create(&config));
  REQUIRE_OK(f, f->config_set_str(config, "preset", "shampoo_2024"));
  for (; settings->key != NULL; ++settings) REQUIRE_OK(f, f->config_set_str(config, settings->key, settings->value));
  return config;
}

shampoo_plan* trainer_plan(const api* f, const workload* work) {
  shampoo_plan* plan = NULL;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  plan_desc.threads = work->threads;
  shampoo_config* config = make_config(f, work->settings);
  REQUIRE_OK(f, f->plan_create(&plan, config, &plan_desc));
  f->config_destroy(config);
  if (work->second_group != NULL) {
    config = make_config(f, work->second_group);
    REQUIRE_OK(f, f->plan_add_group(plan, config, NULL));
    f->config_destroy(config);
  }
  for (int p = 0; p < work->param_count; ++p) {
    const param_shape* const param = &work->params[p];
    shampoo_param_desc desc = SHAMPOO_PARAM_DESC_INIT;
    desc.name = param->name;
    desc.ndim = param->ndim;
    memcpy(desc.shape, param->shape, sizeof param->shape);
    desc.group = param->group;
    desc.param_dtype = work->dtype;
    desc.grad_dtype = work->dtype;
    REQUIRE_OK(f, f->plan_add_param(plan, &desc, NULL));
  }
  REQUIRE_OK(f, f->plan_finish(plan));
  return plan;
}

// Returns number i of a pseudo-random sequence, which `stream` selects. The number is a multiple of 1/64 in [-1, 1), so
// all floating-point dtypes represent it exactly.
static double noise(uint64_t stream, uint64_t i) {
  uint64_t x = (stream + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
  x ^= x >> 30;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 29;
  return (double)(int64_t)(x & 127) / 64.0 - 1.0;
}

static void store(void* array, int32_t dtype, int64_t i, double value) {
  const float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  if (dtype == SHAMPOO_F32) {
    ((float*)array)[i] = single;
  } else if (dtype == SHAMPOO_F64) {
    ((double*)array)[i] = value;
  } else if (dtype == SHAMPOO_BF16) {
    ((uint16_t*)array)[i] = (uint16_t)(bits >> 16);
  } else {  // F16; the value is 0 or a normal number
    const uint32_t sign = bits >> 31 << 15;
    const uint32_t magnitude = value == 0 ? 0 : ((bits & 0x7fffffffu) >> 13) - ((127u - 15u) << 10);
    ((uint16_t*)array)[i] = (uint16_t)(sign | magnitude);
  }
}

static size_t size_of(int32_t dtype) { return dtype == SHAMPOO_F64 ? 8 : dtype == SHAMPOO_F32 ? 4 : 2; }

void trainer_reset(trainer* t) {
  for (int p = 0; p < t->work.param_count; ++p) {
    for (int64_t i = 0; i < t->elements[p]; ++i) {
      store(t->param[p], t->work.dtype, i, noise((uint64_t)p + 1000000, (uint64_t)i));
    }
  }
  t->steps_made = 0;
}

void trainer_begin(trainer* t, const api* f, const workload* work, const shampoo_optimizer_desc* desc) {
  const shampoo_optimizer_desc defaults = SHAMPOO_OPTIMIZER_DESC_INIT;
  memset(t, 0, sizeof *t);
  t->functions = f;
  t->work = *work;
  REQUIRE(work->param_count <= TRAINER_MAX_PARAMS, "%d parameters", work->param_count);
  for (int p = 0; p < work->param_count; ++p) {
    t->elements[p] = 1;
    for (int d = 0; d < work->params[p].ndim; ++d) t->elements[p] *= work->params[p].shape[d];
    REQUIRE(t->elements[p] <= TRAINER_MAX_ELEMENTS, "%lld elements", (long long)t->elements[p]);
  }
  trainer_reset(t);
  shampoo_plan* const plan = trainer_plan(f, work);
  REQUIRE_OK(f, f->optimizer_create(&t->optimizer, plan, desc == NULL ? &defaults : desc));
  f->plan_destroy(plan);
  trainer_bind(t);
}

void trainer_bind(trainer* t) {
  shampoo_buffers buffers[TRAINER_MAX_PARAMS];
  for (int p = 0; p < t->work.param_count; ++p) {
    const shampoo_buffers empty = SHAMPOO_BUFFERS_INIT;
    buffers[p] = empty;
    buffers[p].param = t->param[p];
    buffers[p].grad = t->work.params[p].no_gradient ? NULL : t->grad[p];
    buffers[p].out = t->param[p];
    buffers[p].copy = t->copy[p];
  }
  REQUIRE_OK(t->functions, t->functions->optimizer_bind(t->optimizer, 0, t->work.param_count, buffers));
}

void trainer_fill_gradients(trainer* t, int step) {
  for (int p = 0; p < t->work.param_count; ++p) {
    for (int64_t i = 0; i < t->elements[p]; ++i) {
      store(t->grad[p], t->work.dtype, i, noise((uint64_t)(step * TRAINER_MAX_PARAMS + p), (uint64_t)i));
    }
  }
}

void trainer_step(trainer* t, int steps) {
  for (int s = 0; s < steps; ++s) {
    trainer_fill_gradients(t, t->steps_made);
    REQUIRE_OK(t->functions, t->functions->optimizer_step(t->optimizer, NULL));
    ++t->steps_made;
  }
}

void trainer_end(trainer* t) {
  t->functions->optimizer_destroy(t->optimizer);
  t->optimizer = NULL;
}

static uint64_t hash_bytes(uint64_t hash, const void* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) hash = (hash ^ ((const unsigned char*)bytes)[i]) * 0x100000001b3u;  // FNV-1a
  return hash;
}

uint64_t trainer_hash(const trainer* t) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int p = 0; p < t->work.param_count; ++p) {
    const size_t bytes = (size_t)t->elements[p] * size_of(t->work.dtype);
    hash = hash_bytes(hash, t->param[p], bytes);
    hash = hash_bytes(hash, t->copy[p], bytes);
  }
  return hash;
}

uint64_t train(const api* f, const workload* work, int steps) {
  trainer* const t = malloc(sizeof *t);
  REQUIRE(t != NULL, "no memory");
  trainer_begin(t, f, work, NULL);
  trainer_step(t, steps);
  const uint64_t hash = trainer_hash(t);
  trainer_end(t);
  free(t);
  return hash;
}
