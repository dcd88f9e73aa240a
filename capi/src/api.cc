// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
#include <shampoo/api.h>

namespace {

constexpr shampoo_api kApi = {
    .struct_size = sizeof(shampoo_api),
    .version = shampoo_version,
    .build_info = shampoo_build_info,
    .status_name = shampoo_status_name,
    .last_error = shampoo_last_error,
    .set_log = shampoo_set_log,
    .backend_load = shampoo_backend_load,
    .backend_count = shampoo_backend_count,
    .backend_describe = shampoo_backend_describe,
    .create_sized = shampoo_create_sized,
    .config_create = shampoo_config_create,
    .config_clone = shampoo_config_clone,
    .config_destroy = shampoo_config_destroy,
    .config_set_f64 = shampoo_config_set_f64,
    .config_set_i64 = shampoo_config_set_i64,
    .config_set_str = shampoo_config_set_str,
    .config_parse = shampoo_config_parse,
    .config_get = shampoo_config_get,
    .config_key_count = shampoo_config_key_count,
    .config_describe_key = shampoo_config_describe_key,
    .plan_create = shampoo_plan_create,
    .plan_destroy = shampoo_plan_destroy,
    .plan_add_group = shampoo_plan_add_group,
    .plan_add_param = shampoo_plan_add_param,
    .plan_add_shard = shampoo_plan_add_shard,
    .plan_finish = shampoo_plan_finish,
    .plan_block_count = shampoo_plan_block_count,
    .plan_block = shampoo_plan_block,
    .plan_bytes = shampoo_plan_bytes,
    .comm_from_ops = shampoo_comm_from_ops,
    .comm_from_nccl = shampoo_comm_from_nccl,
    .comm_destroy = shampoo_comm_destroy,
    .optimizer_create = shampoo_optimizer_create,
    .optimizer_destroy = shampoo_optimizer_destroy,
    .optimizer_bind = shampoo_optimizer_bind,
    .optimizer_bind_scalar = shampoo_optimizer_bind_scalar,
    .optimizer_bind_state = shampoo_optimizer_bind_state,
    .optimizer_set = shampoo_optimizer_set,
    .optimizer_get = shampoo_optimizer_get,
    .optimizer_step = shampoo_optimizer_step,
    .optimizer_status = shampoo_optimizer_status,
    .optimizer_error = shampoo_optimizer_error,
    .optimizer_stat = shampoo_optimizer_stat,
    .state_count = shampoo_state_count,
    .state_describe = shampoo_state_describe,
    .state_read = shampoo_state_read,
    .state_write = shampoo_state_write,
    .save = shampoo_save,
    .load = shampoo_load,
    .matrix_inverse_root = shampoo_matrix_inverse_root,
    .matrix_orthogonalize = shampoo_matrix_orthogonalize,
    .optimizer_export = shampoo_optimizer_export,
};

}  // namespace

const shampoo_api* shampoo_get_api(void) { return &kApi; }
