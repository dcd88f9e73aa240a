#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares checkpoints, read with the safetensors package, with the states that shampoo_state_read returns.

    open_files.py MAKE_CHECKPOINT

The files must contain each state entry of each block, with the same shape, dtype and bytes, and nothing else. Symmetric
matrices are an exception: a file contains only their lower triangles. Exits with 77 if the package is not installed.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

try:
    import safetensors
    import safetensors.numpy
except ImportError:
    print("skipped: this python3 cannot import safetensors (PyPI); tests/run.sh installs it")
    sys.exit(77)

# {code of a dtype in shampoo.h: (its name in files, its type in NumPy)}. bf16, which NumPy lacks, is read as uint16.
DTYPES = {1: ("F32", np.float32), 2: ("F64", np.float64), 3: ("F16", np.float16), 4: ("BF16", np.uint16),
          5: ("I32", np.int32), 6: ("I64", np.int64)}
# {name of a case: options of MAKE_CHECKPOINT}. Copies are replicas.
CASES = {
    "one rank": [],
    "copies": ["--copies", "2"],
    "flat shards": ["--shards", "2"],
    "gathered shards": ["--copies", "2", "--shards", "2", "--set", "shard_mode=gather"],
    "large triangles": ["--set", "max_preconditioner_dim=130", "--steps", "2"],
    "16 bits": ["--set", "factor_dtype=bf16", "--set", "inverse_dtype=f16", "--set", "momentum_dtype=bf16",
                "--set", "grafting_dtype=f16"],
    "64 bits": ["--set", "computation_dtype=f64", "--set1", "factor_dtype=f64"],
}


def require(condition, text):
    if not condition:
        sys.exit(f"open_files: {text}")


def square(packed, n):
    """Return the symmetric n x n matrix whose lower triangle, row by row, is `packed`."""
    require(packed.size == n * (n + 1) // 2, f"{packed.size} elements are not a lower triangle of size {n}")
    matrix = np.zeros((n, n), packed.dtype)
    matrix[np.tril_indices(n)] = packed
    matrix.T[np.tril_indices(n)] = packed
    return matrix


def expected_tensors(dump, shapes):
    """Return the state entries that make_checkpoint dumped: {rank: {name of the tensor in a file: entry}}."""
    entries = [entry for entry in json.loads((dump / "entries.json").read_text(encoding="utf-8"))
               if not entry["key"].startswith("group.")]
    first = {}  # {(block, rank): index of the block's first element in the flattened parameter}
    held = {}  # {(parameter, rank): number of elements of the parameter's blocks whose states the rank keeps}
    for entry in entries:
        block, _ = entry["key"].rsplit("/", 1)
        if entry["key"].endswith("/filtered_grad"):
            param = block.rsplit("/", 1)[0], entry["rank"]
            first[block, entry["rank"]] = entry["first"]
            held[param] = held.get(param, 0) + int(np.prod(entry["shape"], dtype=np.int64))
    tensors = {}
    for entry in entries:
        block, state = entry["key"].rsplit("/", 1)
        param = block.rsplit("/", 1)[0]
        # In the key of a state entry, blocks of a shard are numbered from 0 on each rank. In the name of a tensor in a
        # file, the index of the block's first element replaces this number, unless the shard is the whole parameter.
        # entry["piece"] is shampoo_state_entry.of_shard.
        is_part = held[param, entry["rank"]] < int(np.prod(shapes[param], dtype=np.int64))
        if entry["piece"] and is_part:
            block = f"{param}/@{first[block, entry['rank']]}"
        entry["raw"] = (dump / entry["bytes"]).read_bytes()
        tensors.setdefault(entry["rank"], {})[f"{block}/{state}"] = entry
    return tensors


def check_tensor(name, entry, dtype, shape, raw):
    stored, kind = DTYPES[entry["dtype"]]
    require(dtype == stored, f"{name} has dtype {dtype} in its file, expected {stored}")
    values = np.frombuffer(raw, kind)
    if entry["symmetric"]:
        n = entry["shape"][0]
        require(entry["shape"] == [n, n] and shape == [n * (n + 1) // 2], f"{name} has shape {shape}")
        values = square(values, n)
    else:
        require(shape == entry["shape"], f"{name} has shape {shape}, expected {entry['shape']}")
    require(values.tobytes() == entry["raw"], f"{name} has different bytes in its file and in the optimizer")


def check_file(path, expected):
    """Read and check a file with deserialize, safe_open and load_file. Return {name of a tensor: dtype}."""
    content = dict(safetensors.deserialize(path.read_bytes()))
    with safetensors.safe_open(path, framework="numpy") as file:
        require(set(file.keys()) == set(content), f"{path.name}: safe_open and deserialize return different names")
        require(file.metadata() == {"format": "shampoo 1"}, f"{path.name}: its metadata is {file.metadata()}")
        for name in file.keys():
            require(name in expected, f"{path.name}: {name} is not in the optimizer of its rank")
            part = file.get_slice(name)
            check_tensor(name, expected[name], part.get_dtype(), part.get_shape(), bytes(content[name]["data"]))
            if part.get_dtype() != "BF16":
                tensor = file.get_tensor(name)
                check_tensor(name, expected[name], part.get_dtype(), list(tensor.shape), tensor.tobytes())
    if all(tensor["dtype"] != "BF16" for tensor in content.values()):
        for name, tensor in safetensors.numpy.load_file(path).items():
            check_tensor(name, expected[name], content[name]["dtype"], list(tensor.shape), tensor.tobytes())
    return {name: content[name]["dtype"] for name in content}


def check_case(make, folder, options):
    dump = folder / "dump"
    dump.mkdir(parents=True)
    subprocess.run([make, str(folder / "saved"), "--dump", str(dump), *options], check=True)
    index = json.loads((folder / "saved" / "checkpoint-000001.json").read_text(encoding="utf-8"))["checkpoint"]
    shapes = {param["name"]: param["shape"] for param in index["parameters"]}
    expected = expected_tensors(dump, shapes)
    found = {}
    for path in sorted((folder / "saved").glob("*.safetensors")):
        rank = int(path.name.split(".rank-")[1][:5])
        tensors = check_file(path, expected[rank])
        require(not set(tensors) & set(found), f"{path.name}: a tensor is in two files")
        found.update(tensors)
    everything = {name for of_rank in expected.values() for name in of_rank}
    require(set(found) == everything, f"these tensors are in no file: {sorted(everything - set(found))}")
    return found


def main():
    make = sys.argv[1]
    dtypes = set()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, options) in enumerate(CASES.items()):
            found = check_case(make, Path(folder) / str(number), options)
            require(len(found) > 30, f"{name}: {len(found)} tensors; expected more than 30")
            dtypes |= set(found.values())
            print(f"{name}: {len(found)} tensors of {sorted(set(found.values()))}")
    require(dtypes == {"F32", "F64", "F16", "BF16", "I32"}, f"the files have only the dtypes {sorted(dtypes)}")
    print(f"safetensors {safetensors.__version__}")


if __name__ == "__main__":
    main()
