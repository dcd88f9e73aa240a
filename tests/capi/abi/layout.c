/* Copyright The libshampoo authors. */
/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that structs, the table shampoo_api and constants are compatible with version 0.1, so that programs compiled
 * with 0.1 run with every later library. A struct that begins with struct_size may be larger in a later version, but
 * the fields of 0.1 keep their offsets. In 0.1, such a struct does not end with padding, so a new field makes it
 * larger. */
#include <shampoo/api.h>
#include <stdio.h>

static int failures = 0;

static void expect(size_t is, size_t was, const char* what) {
  if (is == was) return;
  printf("%s is %lu, and was %lu in 0.1\n", what, (unsigned long)is, (unsigned long)was);
  ++failures;
}

static void expect_at_least(size_t is, size_t was, const char* what) {
  if (is < was) expect(is, was, what);
}

/* In 0.1, the struct has `size` bytes and ends with the field `last`. Checks that struct_size is still the first field,
 * that the struct has at least `size` bytes, and that `last` ends at the offset `size`. */
#define LAYOUT(type, size, last)                                             \
  expect(offsetof(type, struct_size), 0, "offset of " #type ".struct_size"); \
  expect_at_least(sizeof(type), size, "size of " #type);                     \
  expect(offsetof(type, last) + sizeof(((type*)0)->last), size, "end of " #type "." #last)
/* Checks the position of a function in the table shampoo_api, counted from 0. */
#define SLOT(name, number) OFFSET(shampoo_api, name, sizeof(size_t) + (number) * sizeof(void (*)(void)))
#define OFFSET(type, field, offset) expect(offsetof(type, field), offset, "offset of " #type "." #field)

static void check_read_by_the_library(void) {
  LAYOUT(shampoo_plan_desc, 32, shard_world);
  OFFSET(shampoo_plan_desc, device_type, 8);
  OFFSET(shampoo_plan_desc, threads, 12);
  OFFSET(shampoo_plan_desc, replica_rank, 16);
  OFFSET(shampoo_plan_desc, replica_world, 20);
  OFFSET(shampoo_plan_desc, shard_rank, 24);

  LAYOUT(shampoo_param_desc, 328, row_splits);
  OFFSET(shampoo_param_desc, name, 8);
  OFFSET(shampoo_param_desc, ndim, 16);
  OFFSET(shampoo_param_desc, stack_dims, 20);
  OFFSET(shampoo_param_desc, shape, 24);
  OFFSET(shampoo_param_desc, param_dtype, 88);
  OFFSET(shampoo_param_desc, grad_dtype, 92);
  OFFSET(shampoo_param_desc, group, 96);
  OFFSET(shampoo_param_desc, shard_form, 100);
  OFFSET(shampoo_param_desc, flat_offset, 104);
  OFFSET(shampoo_param_desc, flat_count, 112);
  OFFSET(shampoo_param_desc, local_offset, 120);
  OFFSET(shampoo_param_desc, local_shape, 184);
  OFFSET(shampoo_param_desc, out_dtype, 248);
  OFFSET(shampoo_param_desc, copy_dtype, 252);
  OFFSET(shampoo_param_desc, role, 256);
  OFFSET(shampoo_param_desc, fan, 260);

  LAYOUT(shampoo_allocator, 40, release);
  OFFSET(shampoo_allocator, user, 8);
  OFFSET(shampoo_allocator, allocate, 16);
  OFFSET(shampoo_allocator, deallocate, 24);

  LAYOUT(shampoo_executor, 40, release);
  OFFSET(shampoo_executor, user, 8);
  OFFSET(shampoo_executor, threads, 16);
  OFFSET(shampoo_executor, parallel_for, 24);

  LAYOUT(shampoo_optimizer_desc, 72, state_bytes);
  OFFSET(shampoo_optimizer_desc, device_type, 8);
  OFFSET(shampoo_optimizer_desc, device_id, 12);
  OFFSET(shampoo_optimizer_desc, replica_comm, 16);
  OFFSET(shampoo_optimizer_desc, shard_comm, 24);
  OFFSET(shampoo_optimizer_desc, allocator, 32);
  OFFSET(shampoo_optimizer_desc, executor, 40);
  OFFSET(shampoo_optimizer_desc, stream, 48);
  OFFSET(shampoo_optimizer_desc, state, 56);

  LAYOUT(shampoo_buffers, 40, copy);
  OFFSET(shampoo_buffers, param, 8);
  OFFSET(shampoo_buffers, grad, 16);
  OFFSET(shampoo_buffers, out, 24);
}

static void check_tensor(void) {
  expect(sizeof(shampoo_tensor), 112, "sizeof shampoo_tensor");
  OFFSET(shampoo_tensor, name, 0);
  OFFSET(shampoo_tensor, data, 8);
  OFFSET(shampoo_tensor, grad, 16);
  OFFSET(shampoo_tensor, dtype, 24);
  OFFSET(shampoo_tensor, ndim, 28);
  OFFSET(shampoo_tensor, shape, 32);
  OFFSET(shampoo_tensor, device_type, 96);
  OFFSET(shampoo_tensor, device_id, 100);
  OFFSET(shampoo_tensor, role, 104);
  OFFSET(shampoo_tensor, stack_dims, 108);
}

static void check_comm_ops(void) {
  LAYOUT(shampoo_comm_ops, 72, release);
  OFFSET(shampoo_comm_ops, user, 8);
  OFFSET(shampoo_comm_ops, rank, 16);
  OFFSET(shampoo_comm_ops, world, 20);
  OFFSET(shampoo_comm_ops, device_type, 24);
  OFFSET(shampoo_comm_ops, all_gather, 32);
  OFFSET(shampoo_comm_ops, all_to_all, 40);
  OFFSET(shampoo_comm_ops, async_error, 48);
  OFFSET(shampoo_comm_ops, abort, 56);
}

static void check_written_by_the_library(void) {
  LAYOUT(shampoo_backend_info, 32, device_count);
  OFFSET(shampoo_backend_info, name, 8);
  OFFSET(shampoo_backend_info, unavailable_reason, 16);
  OFFSET(shampoo_backend_info, usable, 24);

  LAYOUT(shampoo_key_info, 64, reserved);
  OFFSET(shampoo_key_info, name, 8);
  OFFSET(shampoo_key_info, value_type, 16);
  OFFSET(shampoo_key_info, default_value, 24);
  OFFSET(shampoo_key_info, range, 32);
  OFFSET(shampoo_key_info, doc, 40);
  OFFSET(shampoo_key_info, scope, 48);
  OFFSET(shampoo_key_info, changeable, 52);
  OFFSET(shampoo_key_info, for_replay, 56);

  LAYOUT(shampoo_block_info, 176, state_bytes);
  OFFSET(shampoo_block_info, param, 8);
  OFFSET(shampoo_block_info, owner, 12);
  OFFSET(shampoo_block_info, shard_owner, 16);
  OFFSET(shampoo_block_info, of_shard, 20);
  OFFSET(shampoo_block_info, ndim, 24);
  OFFSET(shampoo_block_info, shape, 32);
  OFFSET(shampoo_block_info, stride, 96);
  OFFSET(shampoo_block_info, flat_offset, 160);

  LAYOUT(shampoo_state_entry, 120, shard_owner);
  OFFSET(shampoo_state_entry, key, 8);
  OFFSET(shampoo_state_entry, shape, 16);
  OFFSET(shampoo_state_entry, flat_offset, 80);
  OFFSET(shampoo_state_entry, stored_bytes, 88);
  OFFSET(shampoo_state_entry, ndim, 96);
  OFFSET(shampoo_state_entry, dtype, 100);
  OFFSET(shampoo_state_entry, symmetric, 104);
  OFFSET(shampoo_state_entry, of_shard, 108);
  OFFSET(shampoo_state_entry, owner, 112);

  LAYOUT(shampoo_root_info, 32, residual);
  OFFSET(shampoo_root_info, method, 8);
  OFFSET(shampoo_root_info, iterations, 12);
  OFFSET(shampoo_root_info, converged, 16);
  OFFSET(shampoo_root_info, retried, 20);
}

/* Checks that the functions of 0.1 still have their positions. Later versions may only append functions. */
static void check_api(void) {
  LAYOUT(shampoo_api, sizeof(size_t) + 51 * sizeof(void (*)(void)), optimizer_export);
  SLOT(version, 0);
  SLOT(build_info, 1);
  SLOT(status_name, 2);
  SLOT(last_error, 3);
  SLOT(set_log, 4);
  SLOT(backend_load, 5);
  SLOT(backend_count, 6);
  SLOT(backend_describe, 7);
  SLOT(create_sized, 8);
  SLOT(config_create, 9);
  SLOT(config_clone, 10);
  SLOT(config_destroy, 11);
  SLOT(config_set_f64, 12);
  SLOT(config_set_i64, 13);
  SLOT(config_set_str, 14);
  SLOT(config_parse, 15);
  SLOT(config_get, 16);
  SLOT(config_key_count, 17);
  SLOT(config_describe_key, 18);
  SLOT(plan_create, 19);
  SLOT(plan_destroy, 20);
  SLOT(plan_add_group, 21);
  SLOT(plan_add_param, 22);
  SLOT(plan_add_shard, 23);
  SLOT(plan_finish, 24);
  SLOT(plan_block_count, 25);
  SLOT(plan_block, 26);
  SLOT(plan_bytes, 27);
  SLOT(comm_from_ops, 28);
  SLOT(comm_from_nccl, 29);
  SLOT(comm_destroy, 30);
  SLOT(optimizer_create, 31);
  SLOT(optimizer_destroy, 32);
  SLOT(optimizer_bind, 33);
  SLOT(optimizer_bind_scalar, 34);
  SLOT(optimizer_bind_state, 35);
  SLOT(optimizer_set, 36);
  SLOT(optimizer_get, 37);
  SLOT(optimizer_step, 38);
  SLOT(optimizer_status, 39);
  SLOT(optimizer_error, 40);
  SLOT(optimizer_stat, 41);
  SLOT(state_count, 42);
  SLOT(state_describe, 43);
  SLOT(state_read, 44);
  SLOT(state_write, 45);
  SLOT(save, 46);
  SLOT(load, 47);
  SLOT(matrix_inverse_root, 48);
  SLOT(matrix_orthogonalize, 49);
  SLOT(optimizer_export, 50);
}

static void check_codes(void) {
  expect(SHAMPOO_OK, 0, "SHAMPOO_OK");
  expect(SHAMPOO_E_INVALID, 1, "SHAMPOO_E_INVALID");
  expect(SHAMPOO_E_STATE, 2, "SHAMPOO_E_STATE");
  expect(SHAMPOO_E_UNSUPPORTED, 3, "SHAMPOO_E_UNSUPPORTED");
  expect(SHAMPOO_E_NOMEM, 4, "SHAMPOO_E_NOMEM");
  expect(SHAMPOO_E_NUMERIC, 5, "SHAMPOO_E_NUMERIC");
  expect(SHAMPOO_E_COMM, 6, "SHAMPOO_E_COMM");
  expect(SHAMPOO_E_DEVICE, 7, "SHAMPOO_E_DEVICE");
  expect(SHAMPOO_E_IO, 8, "SHAMPOO_E_IO");
  expect(SHAMPOO_E_INTERNAL, 9, "SHAMPOO_E_INTERNAL");
  expect(SHAMPOO_F32, 1, "SHAMPOO_F32");
  expect(SHAMPOO_F64, 2, "SHAMPOO_F64");
  expect(SHAMPOO_F16, 3, "SHAMPOO_F16");
  expect(SHAMPOO_BF16, 4, "SHAMPOO_BF16");
  expect(SHAMPOO_I32, 5, "SHAMPOO_I32");
  expect(SHAMPOO_I64, 6, "SHAMPOO_I64");
  expect(SHAMPOO_CPU, 1, "SHAMPOO_CPU");
  expect(SHAMPOO_CUDA, 2, "SHAMPOO_CUDA");
  expect(SHAMPOO_HIDDEN, 0, "SHAMPOO_HIDDEN");
  expect(SHAMPOO_VECTOR, 1, "SHAMPOO_VECTOR");
  expect(SHAMPOO_EMBEDDING, 2, "SHAMPOO_EMBEDDING");
  expect(SHAMPOO_HEAD, 3, "SHAMPOO_HEAD");
  expect(SHAMPOO_OUT_IN, 0, "SHAMPOO_OUT_IN");
  expect(SHAMPOO_IN_OUT, 1, "SHAMPOO_IN_OUT");
}

int main(void) {
  check_read_by_the_library();
  check_tensor();
  check_comm_ops();
  check_written_by_the_library();
  check_api();
  check_codes();
  return failures == 0 ? 0 : 1;
}
