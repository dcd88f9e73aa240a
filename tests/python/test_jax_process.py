# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests of libshampoo.jax in separate processes: resuming, several devices, memory, and an incompatible JAX."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import libshampoo.jax
import libshampoo.xla_call
from tools import ROOT

START = """
import gc, os, sys
import jax, jax.numpy as jnp, numpy as np
import libshampoo.jax
tx = libshampoo.jax.shampoo(0.1, grafting="adam", precondition_frequency=2, beta2=0.99)
draw = lambda seed: {"w": jnp.asarray(np.random.default_rng(seed).standard_normal((24, 17)), jnp.float32)}

@jax.jit
def step(grads, state, params):
    updates, state = tx.update(grads, state, params)
    return jax.tree.map(jnp.add, params, updates), state
"""


def run(program: str, *arguments: object, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", START + program, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_another_process_continues_a_run(tmp_path: Path) -> None:
    """The second process restores the arrays of the state and does not call init."""
    save = """
params, state = draw(0), tx.init(draw(0))
for t in range(1, 8):
    if t == 4:
        np.savez(sys.argv[1], w=params["w"], **state._asdict())
    params, state = step(draw(t), state, params)
np.savez(sys.argv[2], w=params["w"], **state._asdict())
"""
    load = """
kept = np.load(sys.argv[1])
params = {"w": kept["w"]}
state = libshampoo.jax.ShampooState(*(kept[name] for name in libshampoo.jax.ShampooState._fields))
for t in range(4, 8):
    params, state = step(draw(t), state, params)
expected = np.load(sys.argv[2])
assert int(state.count) == 7
for name, value in {"w": params["w"], **state._asdict()}.items():
    assert np.asarray(value).tobytes() == expected[name].tobytes(), name
"""
    run(save, tmp_path / "middle.npz", tmp_path / "end.npz")
    run(load, tmp_path / "middle.npz", tmp_path / "end.npz")


def test_a_process_runs_an_executable_from_the_cache_of_another_process(tmp_path: Path) -> None:
    program = """
params, state = draw(0), tx.init(draw(0))
for t in range(1, 4):
    params, state = step(draw(t), state, params)
print(np.asarray(params["w"]).tobytes().hex(), len(os.listdir(sys.argv[1])))
"""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
             "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}  # fmt: skip
    first, second = (run(program, tmp_path, **cache).split() for _ in range(2))
    assert first[0] == second[0]
    assert int(first[1]) > 0 and list(tmp_path.glob("jit_step*"))


def test_steps_run_on_several_devices() -> None:
    program = """
from jax.sharding import Mesh, NamedSharding, PartitionSpec
params, grads = draw(0), draw(1)
expected, _ = step(grads, tx.init(params), params)
mesh = Mesh(np.array(jax.devices()), ("d",))
whole, cut = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("d"))
for place in (whole, cut):
    found, _ = step(jax.device_put(grads, place), jax.device_put(tx.init(params), whole), jax.device_put(params, place))
    assert len(found["w"].sharding.device_set) == 2
    assert np.asarray(found["w"]).tobytes() == np.asarray(expected["w"]).tobytes()
"""
    run(program, XLA_FLAGS="--xla_force_host_platform_device_count=2")


SHARDED = """
from jax.sharding import NamedSharding, PartitionSpec as P
draw = lambda seed: {"w": jnp.asarray(np.random.default_rng(seed).standard_normal((24, 16)), jnp.float32)}
params, rows = draw(0), 24 // jax.device_count()
part = lambda tree, shard: {"w": tree["w"][rows * shard : rows * (shard + 1)]}

def train(params, state, step=step):
    for t in range(1, 5):
        params, state = step(draw(t), state, params)
        # If several steps are in flight, XLA's threads can wait for each other forever, with any optimizer.
        jax.block_until_ready(params)
    return params, state

alone, _ = train(params, tx.init(params))
same = lambda one, other: np.asarray(one["w"]).tobytes() == np.asarray(other["w"]).tobytes()
"""


def test_a_compiled_step_of_sharded_parameters_is_bit_identical_to_one_device() -> None:
    """Checks automatic and explicit mesh axes, then a sharded state. The parameters must stay sharded."""
    program = """
from jax.sharding import AxisType
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(kind,))
    rows, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())
    with jax.set_mesh(mesh):
        found, _ = train(jax.device_put(params, rows), jax.device_put(tx.init(params), whole))
        assert same(found, alone) and found["w"].sharding.is_equivalent_to(rows, 2), found["w"].sharding
divided = libshampoo.jax.ShampooState(whole, whole, whole, NamedSharding(mesh, P("d")))
with jax.set_mesh(mesh):
    state = jax.device_put(tx.init(params), divided)
    compiled = jax.jit(step, out_shardings=({"w": rows}, divided), donate_argnums=(1, 2))
    found, state = train(jax.device_put(params, rows), state, compiled)
assert same(found, alone) and state.arena.sharding.spec == P("d")
"""
    run(SHARDED + program, XLA_FLAGS="--xla_force_host_platform_device_count=4")


def test_shard_map_treats_each_shard_as_a_parameter() -> None:
    program = """
from jax.sharding import AxisType
mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
tree, of_state = {"w": P("d")}, libshampoo.jax.ShampooState(P(), P(), P(), P("d"))
init = jax.jit(jax.shard_map(tx.init, mesh=mesh, in_specs=(tree,), out_specs=of_state))
sharded = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(tree, of_state, tree), out_specs=(tree, of_state)))
found, state = train(jax.device_put(params, NamedSharding(mesh, P("d"))), init(params), sharded)
expected = []
for shard in range(4):
    own = part(params, shard)
    kept = tx.init(own)
    for t in range(1, 5):
        own, kept = step(part(draw(t), shard), kept, own)
    expected.append(own["w"])
assert same(found, {"w": np.concatenate(expected)}) and not same(found, alone)
assert state.arena.shape == (4 * kept.arena.size,) and int(state.count) == 4
try:
    sharded(draw(5), tx.init(params), found)  # the state of unsharded parameters
except ValueError as error:
    assert "create a new state with init" in str(error), error
else:
    raise AssertionError("the state of unsharded parameters was not rejected")
"""
    run(SHARDED + program, XLA_FLAGS="--xla_force_host_platform_device_count=4")


def test_communicators_are_rejected() -> None:
    for name in ("comm", "shard_comm"):
        with pytest.raises(TypeError, match=name):
            libshampoo.jax.shampoo(0.1, **{name: object()})  # type: ignore[arg-type]


def test_the_guide_to_sharded_training_runs() -> None:
    page = (ROOT / "docs" / "cuda.md").read_text(encoding="utf-8")
    section = page.partition("### From JAX")[2].partition("\n## ")[0]
    (program,) = re.findall(r"^```python\n(.*?)^```", section, re.S | re.M)
    run(program + "assert loss < 0.1 and len(params['w1'].sharding.device_set) == 4",
        XLA_FLAGS="--xla_force_host_platform_device_count=4")  # fmt: skip


def test_memory_is_released_with_the_transformation() -> None:
    """Checks that 8 deleted transformations occupy less memory than one workspace. XLA keeps a few MB for each."""
    program = """
params = {"w": jnp.ones((1024, 1024))}
keys = dict(grafting="adam", start_preconditioning_step=50, precondition_frequency=50, threads=1)

def use_transformation(k):
    tx = libshampoo.jax.shampoo(0.1, beta2=0.9 + k / 1000, **keys)
    jax.block_until_ready(tx.update(params, tx.init(params), params))

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

use_transformation(0)
before = resident()
for k in range(1, 9):
    use_transformation(k)
assert resident() - before < libshampoo.plan(params, **keys).bytes("workspace"), (before, resident())
"""
    run(program, MALLOC_MMAP_THRESHOLD_="100000")  # makes free() return memory to the system


@pytest.mark.parametrize(
    ("preparation", "words"),
    [
        ("sys.modules['jax'] = None", "libshampoo.jax needs jax 0.6 or later: pip install --upgrade jax\n"),
        ("import ctypes, jax; jax.ffi.include_dir = lambda: sys.argv[1]", "has version 0.0: install a jaxlib with"),
    ],
)
def test_an_incompatible_jax_is_rejected(preparation: str, words: str, tmp_path: Path) -> None:
    header = tmp_path / "xla" / "ffi" / "api" / "c_api.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define XLA_FFI_API_MAJOR 0\n#define XLA_FFI_API_MINOR 0\n")
    program = f"import sys\n{preparation}\nimport libshampoo\nimport libshampoo.jax"
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "ImportError: libshampoo.jax" in done.stderr and words in done.stderr


def test_the_version_of_the_xla_interface_is_checked() -> None:
    libshampoo.xla_call.check_version(1, 1)
    libshampoo.xla_call.check_version(1, 3)
    for compiled, running in ((3, 1), (1, 1001), (1001, 1)):
        with pytest.raises(ImportError, match="libshampoo.jax was compiled for"):
            libshampoo.xla_call.check_version(compiled, running)
