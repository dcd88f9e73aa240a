/* Copyright The libshampoo authors. */
/* SPDX-License-Identifier: Apache-2.0 */
/* A C89 program that is not linked with the library. It loads the library from the path in argv[1], gets the function
 * table shampoo_api, and calls functions of the table to minimize half the squared norm of a 4x3 matrix. */
#include <dlfcn.h>
#include <shampoo/api.h>
#include <stdio.h>
#include <string.h>

#define TRY(call)                        \
  do {                                   \
    if ((call) != SHAMPOO_OK) {          \
      printf("%s\n", api->last_error()); \
      return 1;                          \
    }                                    \
  } while (0)

/* This program exports a function with the name of a library function. The function table must not point to this
 * function. */
int32_t shampoo_version(void) { return -1; }

static int train(const shampoo_api* api) {
  float weight[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, gradient[12];
  shampoo_config* config;
  shampoo_plan* plan;
  shampoo_optimizer* optimizer;
  shampoo_plan_desc plan_desc = SHAMPOO_PLAN_DESC_INIT;
  shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
  shampoo_optimizer_desc optimizer_desc = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  int i, step, far = 0;

  TRY(api->config_create(&config));
  TRY(api->config_set_f64(config, "lr", 0.5));
  TRY(api->plan_create(&plan, config, &plan_desc));
  param.name = "weight", param.ndim = 2, param.shape[0] = 4, param.shape[1] = 3;
  TRY(api->plan_add_param(plan, &param, NULL));
  TRY(api->plan_finish(plan));
  TRY(api->optimizer_create(&optimizer, plan, &optimizer_desc));
  api->plan_destroy(plan);
  api->config_destroy(config);
  buffers.param = weight, buffers.grad = gradient, buffers.out = weight;
  TRY(api->optimizer_bind(optimizer, 0, 1, &buffers));
  for (step = 0; step < 200; ++step) {
    memcpy(gradient, weight, sizeof gradient);
    TRY(api->optimizer_step(optimizer, NULL));
  }
  api->optimizer_destroy(optimizer);
  for (i = 0; i < 12; ++i) far += !(weight[i] > -0.01f && weight[i] < 0.01f);
  printf("%d of 12 elements are not between -0.01 and 0.01; weight[11] is %g\n", far, weight[11]);
  return far != 0;
}

int main(int argc, char** argv) {
  void* const library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  shampoo_get_api_function get_api;
  const shampoo_api* api;
  void* found;
  if (library == NULL || (found = dlsym(library, "shampoo_get_api")) == NULL) return puts(dlerror()), 2;
  memcpy(&get_api, &found, sizeof found);
  api = get_api();
  if (api->version() == shampoo_version())
    return puts("the function table points to the program's own shampoo_version()"), 1;
  if (api->version() / 100 != 100 * SHAMPOO_VERSION_MAJOR + SHAMPOO_VERSION_MINOR)
    return puts("the major or minor version of the library differs from that of the header"), 2;
  /* The table stays valid, because the library stays mapped after dlclose(). */
  dlclose(library);
  return train(api);
}
