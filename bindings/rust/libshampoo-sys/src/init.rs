// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions new(), which set the same values as the _INIT macros of the C header. The functions are written by hand,
// because SWIG cannot read the macros. A test compares the initialized structs of Rust and C byte by byte.

use crate::bindings::*;
use std::mem::size_of;
use std::ptr::{null, null_mut};

macro_rules! init {
    ($type:ident, $macro:literal, { $($field:ident: $value:expr),* $(,)? }) => {
        impl $type {
            #[doc = concat!("`", $macro, "` of the header: sets struct_size, and all other fields to their defaults.")]
            pub const fn new() -> Self {
                Self { struct_size: size_of::<Self>(), $($field: $value),* }
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

impl shampoo_tensor {
    /// `SHAMPOO_TENSOR_INIT` of the header: all fields 0.
    pub const fn new() -> Self {
        Self {
            name: null(),
            data: null_mut(),
            grad: null(),
            dtype: 0,
            ndim: 0,
            shape: [0; 8],
            device_type: 0,
            device_id: 0,
            role: SHAMPOO_HIDDEN,
            stack_dims: 0,
        }
    }
}

impl Default for shampoo_tensor {
    fn default() -> Self {
        Self::new()
    }
}

init!(shampoo_backend_info, "SHAMPOO_BACKEND_INFO_INIT", {
    name: null(),
    unavailable_reason: null(),
    usable: 0,
    device_count: 0,
});

init!(shampoo_key_info, "SHAMPOO_KEY_INFO_INIT", {
    name: null(),
    value_type: null(),
    default_value: null(),
    range: null(),
    doc: null(),
    scope: 0,
    changeable: 0,
    for_replay: 0,
    reserved: 0,
});

init!(shampoo_param_desc, "SHAMPOO_PARAM_DESC_INIT", {
    name: null(),
    ndim: 0,
    stack_dims: 0,
    shape: [0; 8],
    param_dtype: SHAMPOO_F32,
    grad_dtype: SHAMPOO_F32,
    group: 0,
    shard_form: 0,
    flat_offset: 0,
    flat_count: 0,
    local_offset: [0; 8],
    local_shape: [0; 8],
    out_dtype: 0,
    copy_dtype: 0,
    role: SHAMPOO_HIDDEN,
    fan: SHAMPOO_OUT_IN,
    row_splits: [0; 8],
});

init!(shampoo_block_info, "SHAMPOO_BLOCK_INFO_INIT", {
    param: 0,
    owner: 0,
    shard_owner: 0,
    of_shard: 0,
    ndim: 0,
    shape: [0; 8],
    stride: [0; 8],
    flat_offset: 0,
    state_bytes: 0,
});

init!(shampoo_plan_desc, "SHAMPOO_PLAN_DESC_INIT", {
    device_type: SHAMPOO_CPU,
    threads: 0,
    replica_rank: 0,
    replica_world: 1,
    shard_rank: 0,
    shard_world: 1,
});

init!(shampoo_comm_ops, "SHAMPOO_COMM_OPS_INIT", {
    user: null_mut(),
    rank: 0,
    world: 1,
    device_type: SHAMPOO_CPU,
    all_gather: None,
    all_to_all: None,
    async_error: None,
    abort: None,
    release: None,
});

init!(shampoo_allocator, "SHAMPOO_ALLOCATOR_INIT", {
    user: null_mut(),
    allocate: None,
    deallocate: None,
    release: None,
});

init!(shampoo_executor, "SHAMPOO_EXECUTOR_INIT", {
    user: null_mut(),
    threads: 0,
    parallel_for: None,
    release: None,
});

init!(shampoo_optimizer_desc, "SHAMPOO_OPTIMIZER_DESC_INIT", {
    device_type: SHAMPOO_CPU,
    device_id: 0,
    replica_comm: null_mut(),
    shard_comm: null_mut(),
    allocator: null(),
    executor: null(),
    stream: null_mut(),
    state: null_mut(),
    state_bytes: 0,
});

init!(shampoo_buffers, "SHAMPOO_BUFFERS_INIT", {
    param: null(),
    grad: null(),
    out: null_mut(),
    copy: null_mut(),
});

init!(shampoo_state_entry, "SHAMPOO_STATE_ENTRY_INIT", {
    key: null(),
    shape: [0; 8],
    flat_offset: 0,
    stored_bytes: 0,
    ndim: 0,
    dtype: 0,
    symmetric: 0,
    of_shard: 0,
    owner: 0,
    shard_owner: 0,
});

init!(shampoo_root_info, "SHAMPOO_ROOT_INFO_INIT", {
    method: 0,
    iterations: 0,
    converged: 0,
    retried: 0,
    residual: 0.0,
});
