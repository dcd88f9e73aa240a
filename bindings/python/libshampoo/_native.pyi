# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Types of the names in ``_native`` that this package uses. SWIG generates most of ``_native`` from shampoo.h.

If a call fails, it raises an exception. Output arguments of the C functions become results, except structs: the caller
passes a struct, which the call fills. Addresses become integers. A test compares the names in this file with the names
in ``_native``.
"""
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, final

SHAMPOO_CPU: int
SHAMPOO_HIDDEN: int
SHAMPOO_VECTOR: int
SHAMPOO_EMBEDDING: int
SHAMPOO_HEAD: int
SHAMPOO_OUT_IN: int
SHAMPOO_IN_OUT: int
SHAMPOO_CUDA: int
SHAMPOO_F32: int
SHAMPOO_F64: int
SHAMPOO_F16: int
SHAMPOO_BF16: int
SHAMPOO_I32: int
SHAMPOO_I64: int

@final
class shampoo_config: ...

@final
class shampoo_plan: ...

@final
class shampoo_comm: ...

@final
class shampoo_optimizer:
    def disown(self) -> None: ...

class shampoo_backend_info:
    name: str
    unavailable_reason: str
    usable: int
    device_count: int

class shampoo_key_info:
    name: str
    value_type: str
    default_value: str
    range: str
    doc: str
    scope: int
    changeable: int
    for_replay: int

class shampoo_param_desc:
    name: str
    ndim: int
    stack_dims: int
    shape: tuple[int, ...]
    param_dtype: int
    grad_dtype: int
    group: int
    shard_form: int
    flat_offset: int
    flat_count: int
    local_offset: tuple[int, ...]
    local_shape: tuple[int, ...]
    out_dtype: int
    copy_dtype: int
    role: int
    fan: int
    row_splits: tuple[int, ...]

class shampoo_block_info:
    param: int
    owner: int
    shard_owner: int
    of_shard: int
    ndim: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    flat_offset: int
    state_bytes: int

class shampoo_plan_desc:
    device_type: int
    threads: int
    replica_rank: int
    replica_world: int
    shard_rank: int
    shard_world: int

class shampoo_optimizer_desc:
    device_type: int
    device_id: int
    replica_comm: shampoo_comm | None
    shard_comm: shampoo_comm | None
    stream: int | None
    state: int | None
    state_bytes: int

class shampoo_state_entry:
    key: str
    shape: tuple[int, ...]
    flat_offset: int
    stored_bytes: int
    ndim: int
    dtype: int
    symmetric: int
    of_shard: int
    owner: int
    shard_owner: int

class shampoo_root_info:
    method: int
    iterations: int
    converged: int
    retried: int
    residual: float

def shampoo_version() -> int: ...
def shampoo_build_info() -> str: ...
def shampoo_set_log(callback: Callable[[int, str], object] | None, max_level: int) -> None: ...
def shampoo_backend_load(name_or_path: str) -> None: ...
def shampoo_backend_describe(index: int, info: shampoo_backend_info) -> None: ...
def shampoo_config_create() -> shampoo_config: ...
def shampoo_config_clone(config: shampoo_config) -> shampoo_config: ...
def shampoo_config_set_f64(config: shampoo_config, key: str, value: float) -> None: ...
def shampoo_config_parse(config: shampoo_config, options: str) -> None: ...
def shampoo_config_set_str(config: shampoo_config, key: str, value: str) -> None: ...
def shampoo_config_get(config: shampoo_config, key: str) -> str: ...
def shampoo_config_key_count() -> int: ...
def shampoo_config_describe_key(index: int, info: shampoo_key_info) -> None: ...
def shampoo_plan_create(config: shampoo_config, desc: shampoo_plan_desc) -> shampoo_plan: ...
def shampoo_plan_add_group(plan: shampoo_plan, config: shampoo_config) -> int: ...
def shampoo_plan_add_param(plan: shampoo_plan, desc: shampoo_param_desc) -> int: ...
def shampoo_plan_add_shard(plan: shampoo_plan, param: int, shard_rank: int, desc: shampoo_param_desc) -> None: ...
def shampoo_plan_finish(plan: shampoo_plan) -> None: ...
def shampoo_plan_block_count(plan: shampoo_plan) -> int: ...
def shampoo_plan_block(plan: shampoo_plan, index: int, info: shampoo_block_info) -> None: ...
def shampoo_plan_bytes(plan: shampoo_plan, rank: int, what: str) -> int: ...
def shampoo_comm_from_ops(ops: Any) -> shampoo_comm: ...
def shampoo_comm_from_nccl(nccl_comm: int, libnccl_path: str | None) -> shampoo_comm: ...
def shampoo_optimizer_create(plan: shampoo_plan, desc: shampoo_optimizer_desc) -> shampoo_optimizer: ...
def shampoo_optimizer_destroy(opt: shampoo_optimizer) -> None: ...
def shampoo_optimizer_bind(
    opt: shampoo_optimizer, first: int, buffers: Sequence[tuple[View | None, ...]]
) -> None: ...
def shampoo_optimizer_bind_scalar(
    opt: shampoo_optimizer, group: int, key: str, dtype: int, value: int | None
) -> None: ...
def shampoo_optimizer_bind_state(opt: shampoo_optimizer, state_in: int | None, state_out: int | None) -> None: ...
def shampoo_optimizer_set(opt: shampoo_optimizer, group: int, key: str, value: float) -> None: ...
def shampoo_optimizer_get(opt: shampoo_optimizer, group: int, key: str) -> float: ...
def shampoo_optimizer_step(opt: shampoo_optimizer, stream: int | None) -> None: ...
def shampoo_optimizer_export(opt: shampoo_optimizer, blend: float, weights: Sequence[View | None]) -> None: ...
def shampoo_optimizer_status(opt: shampoo_optimizer, wait: int) -> int: ...
def shampoo_optimizer_stat(opt: shampoo_optimizer, key: str) -> float: ...
def shampoo_state_count(opt: shampoo_optimizer) -> int: ...
def shampoo_state_describe(opt: shampoo_optimizer, index: int, entry: shampoo_state_entry) -> None: ...
def shampoo_state_read(
    opt: shampoo_optimizer,
    index: int,
    first: int,
    count: int,
    dst: int,
    dst_bytes: int,
    dst_device_type: int,
    stream: int | None,
) -> None: ...
def shampoo_state_write(
    opt: shampoo_optimizer,
    index: int,
    first: int,
    count: int,
    src: int,
    src_bytes: int,
    src_device_type: int,
    stream: int | None,
) -> None: ...
def shampoo_save(
    opts: Sequence[shampoo_optimizer], world: shampoo_comm | None, directory: str, stream: int | None
) -> None: ...
def shampoo_load(
    opts: Sequence[shampoo_optimizer], world: shampoo_comm | None, directory: str, stream: int | None
) -> None: ...

@final
class View:
    shape: tuple[int, ...]
    pointer: int
    nbytes: int
    dtype: int
    device_type: int
    device_id: int
    readonly: bool
    dense: bool
    def __init__(self, array: Any, what: str = ..., stream: int | None = ...) -> None: ...
    def check(
        self, what: str, dtype: int, shape: tuple[int, ...], device_type: int, device_id: int, role: int
    ) -> View: ...

def start(module: ModuleType) -> None: ...
def preload(path: Any) -> bool: ...
def same_address(first: Any, second: Any) -> bool: ...
