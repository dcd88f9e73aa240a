/*
 * Copyright The libshampoo authors.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SHAMPOO_API_H
#define SHAMPOO_API_H

#include <shampoo/shampoo.h>

/**
 * @file
 * api.h - the functions of shampoo.h as a table of pointers, for programs that load libshampoo with dlopen().
 *
 * A call of dlsym() finds the function that returns the table:
 *
 * @code{.c}
 * void* library = dlopen("libshampoo.so.0", RTLD_NOW | RTLD_LOCAL);
 * shampoo_get_api_function get_api = (shampoo_get_api_function)dlsym(library, "shampoo_get_api");
 * const shampoo_api* api = get_api();
 * if (api->version() / 100 != SHAMPOO_VERSION_MAJOR * 100 + SHAMPOO_VERSION_MINOR) return 1;
 * status = api->config_create(&config); // instead of shampoo_config_create(&config)
 * @endcode
 *
 * The header is C89 and C++98, like shampoo.h.
 */

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The public functions, each under its name without the prefix: api->optimizer_step is shampoo_optimizer_step(). The
 * pointers in the first struct_size bytes are not NULL.
 *
 * Later versions of libshampoo only append members, so the position of the member `version` never changes. Before any
 * other call, compare api->version() with the SHAMPOO_VERSION_ macros. Before calling a function that the loaded
 * library may lack, check SHAMPOO_API_HAS().
 */
typedef struct shampoo_api {
  /** Size of the table in the library that was loaded. It may be smaller or larger than sizeof(shampoo_api). */
  size_t struct_size;

  /** @cond Not repeated on the documentation site: shampoo.h documents these members as functions. */

  /* Library */
  int32_t (*version)(void);
  const char* (*build_info)(void);
  const char* (*status_name)(shampoo_status status);
  const char* (*last_error)(void);
  shampoo_status (*set_log)(shampoo_log_callback callback, void* user, int32_t max_level);
  shampoo_status (*backend_load)(const char* name_or_path);
  int32_t (*backend_count)(void);
  shampoo_status (*backend_describe)(int32_t index, shampoo_backend_info* info);

  /* Simple API */
  shampoo_status (*create_sized)(shampoo_optimizer** out, const char* options, const shampoo_tensor* tensors,
                                 int32_t count, size_t tensor_size);

  /* Config */
  shampoo_status (*config_create)(shampoo_config** out);
  shampoo_status (*config_clone)(shampoo_config** out, const shampoo_config* config);
  void (*config_destroy)(shampoo_config* config);
  shampoo_status (*config_set_f64)(shampoo_config* config, const char* key, double value);
  shampoo_status (*config_set_i64)(shampoo_config* config, const char* key, int64_t value);
  shampoo_status (*config_set_str)(shampoo_config* config, const char* key, const char* value);
  shampoo_status (*config_parse)(shampoo_config* config, const char* options);
  const char* (*config_get)(const shampoo_config* config, const char* key);
  int32_t (*config_key_count)(void);
  shampoo_status (*config_describe_key)(int32_t index, shampoo_key_info* info);

  /* Plan */
  shampoo_status (*plan_create)(shampoo_plan** out, const shampoo_config* config, const shampoo_plan_desc* desc);
  void (*plan_destroy)(shampoo_plan* plan);
  shampoo_status (*plan_add_group)(shampoo_plan* plan, const shampoo_config* config, int32_t* group_out);
  shampoo_status (*plan_add_param)(shampoo_plan* plan, const shampoo_param_desc* desc, int32_t* index_out);
  shampoo_status (*plan_add_shard)(shampoo_plan* plan, int32_t param, int32_t shard_rank,
                                   const shampoo_param_desc* desc);
  shampoo_status (*plan_finish)(shampoo_plan* plan);
  shampoo_status (*plan_block_count)(const shampoo_plan* plan, int64_t* count_out);
  shampoo_status (*plan_block)(const shampoo_plan* plan, int64_t index, shampoo_block_info* info);
  shampoo_status (*plan_bytes)(const shampoo_plan* plan, int32_t rank, const char* what, int64_t* bytes_out);

  /* Communicators */
  shampoo_status (*comm_from_ops)(shampoo_comm** out, const shampoo_comm_ops* ops);
  shampoo_status (*comm_from_nccl)(shampoo_comm** out, void* nccl_comm, const char* libnccl_path);
  void (*comm_destroy)(shampoo_comm* comm);

  /* Optimizer */
  shampoo_status (*optimizer_create)(shampoo_optimizer** out, const shampoo_plan* plan,
                                     const shampoo_optimizer_desc* desc);
  void (*optimizer_destroy)(shampoo_optimizer* opt);
  shampoo_status (*optimizer_bind)(shampoo_optimizer* opt, int32_t first, int32_t count,
                                   const shampoo_buffers* buffers);
  shampoo_status (*optimizer_bind_scalar)(shampoo_optimizer* opt, int32_t group, const char* key, int32_t dtype,
                                          const void* value);
  shampoo_status (*optimizer_bind_state)(shampoo_optimizer* opt, const void* state_in, void* state_out);
  shampoo_status (*optimizer_set)(shampoo_optimizer* opt, int32_t group, const char* key, double value);
  shampoo_status (*optimizer_get)(const shampoo_optimizer* opt, int32_t group, const char* key, double* value_out);
  shampoo_status (*optimizer_step)(shampoo_optimizer* opt, void* stream);
  shampoo_status (*optimizer_status)(shampoo_optimizer* opt, int32_t wait, int64_t* step_out);
  const char* (*optimizer_error)(const shampoo_optimizer* opt);
  shampoo_status (*optimizer_stat)(const shampoo_optimizer* opt, const char* key, double* value_out);

  /* State */
  shampoo_status (*state_count)(const shampoo_optimizer* opt, int64_t* count_out);
  shampoo_status (*state_describe)(const shampoo_optimizer* opt, int64_t index, shampoo_state_entry* entry);
  shampoo_status (*state_read)(shampoo_optimizer* opt, int64_t index, int64_t first, int64_t count, void* dst,
                               size_t dst_bytes, int32_t dst_device_type, void* stream);
  shampoo_status (*state_write)(shampoo_optimizer* opt, int64_t index, int64_t first, int64_t count, const void* src,
                                size_t src_bytes, int32_t src_device_type, void* stream);

  /* Checkpoints */
  shampoo_status (*save)(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                         void* stream);
  shampoo_status (*load)(shampoo_optimizer* const* opts, int32_t count, shampoo_comm* world, const char* directory,
                         void* stream);

  /* Matrix functions */
  shampoo_status (*matrix_inverse_root)(const shampoo_config* config, int64_t n, int32_t dtype, const void* a, void* x,
                                        int32_t root_num, int32_t root_den, shampoo_root_info* info);
  shampoo_status (*matrix_orthogonalize)(const shampoo_config* config, int64_t rows, int64_t columns, int32_t dtype,
                                         const void* a, void* x);

  /* Averages */
  shampoo_status (*optimizer_export)(shampoo_optimizer* opt, double blend, int32_t count, void* const* weights);
  /** @endcond */
} shampoo_api;

/** Evaluates to 1 if the table of the loaded library has the member, otherwise to 0. Example:
 * SHAMPOO_API_HAS(api, matrix_inverse_root). */
#define SHAMPOO_API_HAS(api, member) ((api)->struct_size > offsetof(shampoo_api, member))

/** Type of shampoo_get_api(), for the result of dlsym(). */
typedef const struct shampoo_api* (*shampoo_get_api_function)(void);

/**
 * Returns the table of the public functions.
 *
 * @return the table, never NULL. It exists while the library is loaded, and never changes. It must not be freed.
 */
const shampoo_api* shampoo_get_api(void);

#ifdef __cplusplus
}
#endif

#endif /* SHAMPOO_API_H */
