/* Copyright The libshampoo authors. */
/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the _INIT macros set struct_size and the documented defaults, and set all other fields to 0. */
#include <shampoo/shampoo.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  printf("failed: %s\n", what);
  ++failures;
}
#define EXPECT(condition) expect((condition), #condition)

/* Clears the first field (struct_size, or name of a shampoo_tensor), and returns whether all bytes are 0 afterwards.
 * Call it after checking that field, and after clearing the fields whose default is not 0. */
static int rest_is_zero(void* object, size_t bytes) {
  const unsigned char* byte = (const unsigned char*)object;
  size_t i;
  memset(object, 0, sizeof(size_t));
  for (i = 0; i < bytes; ++i) {
    if (byte[i] != 0) return 0;
  }
  return 1;
}

static void check_descriptions(void) {
  static shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
  static shampoo_comm_ops comm = SHAMPOO_COMM_OPS_INIT;
  static shampoo_plan_desc plan = SHAMPOO_PLAN_DESC_INIT;
  static shampoo_optimizer_desc optimizer = SHAMPOO_OPTIMIZER_DESC_INIT;

  EXPECT(param.struct_size == sizeof param);
  EXPECT(param.param_dtype == SHAMPOO_F32 && param.grad_dtype == SHAMPOO_F32);
  param.param_dtype = param.grad_dtype = 0;
  EXPECT(rest_is_zero(&param, sizeof param));

  EXPECT(comm.struct_size == sizeof comm);
  EXPECT(comm.device_type == SHAMPOO_CPU && comm.world == 1);
  comm.device_type = comm.world = 0;
  EXPECT(rest_is_zero(&comm, sizeof comm));

  EXPECT(plan.struct_size == sizeof plan);
  EXPECT(plan.device_type == SHAMPOO_CPU);
  EXPECT(plan.replica_world == 1 && plan.shard_world == 1);
  plan.device_type = plan.replica_world = plan.shard_world = 0;
  EXPECT(rest_is_zero(&plan, sizeof plan));

  EXPECT(optimizer.struct_size == sizeof optimizer);
  EXPECT(optimizer.device_type == SHAMPOO_CPU);
  optimizer.device_type = 0;
  EXPECT(rest_is_zero(&optimizer, sizeof optimizer));
}

static void check_sizes_only(void) {
  static shampoo_backend_info backend = SHAMPOO_BACKEND_INFO_INIT;
  static shampoo_key_info key = SHAMPOO_KEY_INFO_INIT;
  static shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
  static shampoo_allocator allocator = SHAMPOO_ALLOCATOR_INIT;
  static shampoo_executor executor = SHAMPOO_EXECUTOR_INIT;
  static shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  static shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  static shampoo_root_info root = SHAMPOO_ROOT_INFO_INIT;
  static shampoo_tensor tensor = SHAMPOO_TENSOR_INIT; /* has no struct_size: its first member is a pointer */

  EXPECT(backend.struct_size == sizeof backend && rest_is_zero(&backend, sizeof backend));
  EXPECT(key.struct_size == sizeof key && rest_is_zero(&key, sizeof key));
  EXPECT(block.struct_size == sizeof block && rest_is_zero(&block, sizeof block));
  EXPECT(allocator.struct_size == sizeof allocator && rest_is_zero(&allocator, sizeof allocator));
  EXPECT(executor.struct_size == sizeof executor && rest_is_zero(&executor, sizeof executor));
  EXPECT(buffers.struct_size == sizeof buffers && rest_is_zero(&buffers, sizeof buffers));
  EXPECT(entry.struct_size == sizeof entry && rest_is_zero(&entry, sizeof entry));
  EXPECT(root.struct_size == sizeof root && rest_is_zero(&root, sizeof root));
  EXPECT(tensor.name == NULL && rest_is_zero(&tensor, sizeof tensor));
}

int main(void) {
  check_descriptions();
  check_sizes_only();
  EXPECT(shampoo_version() == SHAMPOO_VERSION_MAJOR * 10000 + SHAMPOO_VERSION_MINOR * 100 + SHAMPOO_VERSION_PATCH);
  return failures == 0 ? 0 : 1;
}
