# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Helpers for the tests of shampoo-ckpt. They create checkpoints, run the tool, and read files without the tool."""
import json
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32}
NAMES = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32"}
ELEMENTWISE = ("filtered_grad", "grafting", "momentum")
# Options with which make_checkpoint makes more than kMaxBatchBlocks (source.cc) blocks, so that shampoo-ckpt reads them
# in several batches.
MANY_BLOCKS = ("--steps", 1, "--shape", "wide=32100", "--shape", "bias=25100", "--set", "grafting=none", "--set",
               "momentum=0", "--set1", "grafting=none")


def ckpt(*arguments):
    return subprocess.run([os.environ["SHAMPOO_CKPT"], *map(str, arguments)], capture_output=True, text=True,
                          encoding="utf-8", check=False)


def make(directory, *options):
    subprocess.run([os.environ["MAKE_CHECKPOINT"], str(directory), *map(str, options)], check=True)
    return directory


class Tensor:
    """A tensor of a safetensors file: its dtype, shape and bytes, and the position of the bytes in the file."""

    def __init__(self, path, dtype, shape, begin, raw):
        self.path, self.dtype, self.shape, self.begin, self.end, self.raw = path, dtype, shape, begin, begin + len(raw), raw

    def values(self):
        """Returns the elements as a flat float64 array."""
        if self.dtype == "BF16":
            return (np.frombuffer(self.raw, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return np.frombuffer(self.raw, DTYPES[self.dtype]).astype(np.float64)


def tensors_of(path):
    content = path.read_bytes()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:start])
    header.pop("__metadata__")
    tensors = {}
    for name, metadata in header.items():
        begin, end = (start + at for at in metadata["data_offsets"])
        tensors[name] = Tensor(path, metadata["dtype"], metadata["shape"], begin, content[begin:end])
    return tensors


class Checkpoint:
    """The newest checkpoint in a directory, with all tensors of its files."""

    def __init__(self, directory):
        self.path = sorted(Path(directory).glob("checkpoint-??????.json"))[-1]
        self.index = json.loads(self.path.read_text(encoding="utf-8"))["checkpoint"]
        self.tensors = {}
        for file in self.index["files"]:
            self.tensors.update(tensors_of(self.path.parent / file["name"]))

    def files(self):
        return [self.path.parent / file["name"] for file in self.index["files"]]

    def param(self, name):
        return next(param for param in self.index["parameters"] if param["name"] == name)

    def elements(self, name):
        return int(np.prod(self.param(name)["shape"], dtype=np.int64))

    def blocks(self, name):
        return [block for block in self.index["blocks"] if block["parameter"] == name]

    def entries(self, name, kind):
        """Returns the tensors of one kind of state. For example, kind "factor" selects factor.0 and factor.1."""
        return [self.tensors[f"{block['key']}/{state}"] for block in self.blocks(name) for state in block["entries"]
                if state.split(".")[0] == kind]

    def places(self, block):
        """Returns, for each element of a block in row-major order, its index in the flattened parameter."""
        count = self.elements(block["parameter"])
        piece = block.get("piece", {"shape": [count], "offset": [0], "extent": [count]})
        within = block["offset"] + sum(
            index * stride for index, stride in zip(np.indices(block["shape"]), block["strides"]))
        at = np.unravel_index(within.reshape(-1), piece["extent"])
        return np.ravel_multi_index([index + first for index, first in zip(at, piece["offset"])], piece["shape"])

    def whole(self, name, state):
        """Collects an elementwise state of a parameter from all blocks. Returns a flat array."""
        whole = np.full(self.elements(name), np.nan)
        for block in self.blocks(name):
            whole[self.places(block)] = self.tensors[f"{block['key']}/{state}"].values()
        return whole

    def rewrite(self, change):
        """Calls change(index), and writes the changed index with a valid checksum."""
        change(self.index)
        text = json.dumps(self.index, ensure_ascii=False)
        self.path.write_text('{"checksum":"0123456789abcdef",\n"checkpoint":' + text + "}\n", encoding="utf-8")
        subprocess.run([os.environ["SEAL_INDEX"], str(self.path)], check=True)


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_tool(self, status, *arguments):
        """Runs the tool and checks the exit status. Returns stderr if the status is 2, otherwise stdout."""
        result = ckpt(*arguments)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout if status != 2 else result.stderr


main = unittest.main
