/* Copyright The libshampoo authors. */
/* SPDX-License-Identifier: Apache-2.0 */
/* Includes the public header before any other header. The tests compile this file as every documented version of C and
 * C++. */
#include <shampoo/shampoo.h>
/* The header is included twice, as happens in larger programs. */
#include <shampoo/shampoo.h>

shampoo_status (*capi_header_alone)(shampoo_optimizer* opt, void* stream);

void capi_header_structs(void);
void capi_header_structs(void) {
  shampoo_backend_info backend = SHAMPOO_BACKEND_INFO_INIT;
  shampoo_key_info key = SHAMPOO_KEY_INFO_INIT;
  shampoo_param_desc param = SHAMPOO_PARAM_DESC_INIT;
  shampoo_block_info block = SHAMPOO_BLOCK_INFO_INIT;
  shampoo_plan_desc plan = SHAMPOO_PLAN_DESC_INIT;
  shampoo_allocator allocator = SHAMPOO_ALLOCATOR_INIT;
  shampoo_executor executor = SHAMPOO_EXECUTOR_INIT;
  shampoo_optimizer_desc optimizer = SHAMPOO_OPTIMIZER_DESC_INIT;
  shampoo_buffers buffers = SHAMPOO_BUFFERS_INIT;
  shampoo_state_entry entry = SHAMPOO_STATE_ENTRY_INIT;
  shampoo_root_info root = SHAMPOO_ROOT_INFO_INIT;
  (void)backend, (void)key, (void)param, (void)block, (void)plan, (void)allocator;
  (void)executor, (void)optimizer, (void)buffers, (void)entry, (void)root;
  capi_header_alone = shampoo_optimizer_step;
}
