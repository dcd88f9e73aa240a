# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""libshampoo.jax in separate processes: resuming a run, several devices, memory, an incompatible JAX."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import libshampoo.xla_call
import pytest

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
    """The process restores the arrays of the state and does not call init."""
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


def test_an_executable_from_the_cache_of_another_process(tmp_path: Path) -> None:
    """Compiled code does not depend on the process that compiled it."""
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


def test_memory_is_released_with_the_transformation() -> None:
    """The 8 plans differ. XLA keeps a few MB for each program that it has compiled."""
    program = """
params = {"w": jnp.ones((1024, 1024))}
keys = dict(grafting="adam", start_preconditioning_step=50, precondition_frequency=50, threads=1)

def live(k):
    tx = libshampoo.jax.shampoo(0.1, beta2=0.9 + k / 1000, **keys)
    jax.block_until_ready(tx.update(params, tx.init(params), params))

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

live(0)
before = resident()
for k in range(1, 9):
    live(k)
assert resident() - before < libshampoo.plan(params, **keys).bytes("workspace"), (before, resident())
"""
    run(program, MALLOC_MMAP_THRESHOLD_="100000")  # makes free() return memory to the system


@pytest.mark.parametrize(
    ("preparation", "words"),
    [
        ("sys.modules['jax'] = None", "libshampoo.jax needs jax 0.5 or later: pip install jax\n"),
        ("import ctypes, jax; jax.ffi.include_dir = lambda: sys.argv[1]", "has version 0.0: install a later jaxlib"),
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
