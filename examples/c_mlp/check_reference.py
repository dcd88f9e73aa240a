#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Repeats recorded training runs and compares the loss of every step with the recorded loss.

    python3 check_reference.py --trainer build/train_digits_f64 ../../tests/golden/data/training/*.safetensors

Each file has one recorded case: the initial weights, the batches, the settings of the optimizer, and the losses of the
reference implementation. The list loss_atol has the allowed difference for every step. A case also has the losses of
PyTorch's AdamW without weight decay. The script compares the losses of the trainer's AdamW with them, with the same
allowed differences. The file data.safetensors has images instead of a training run. The script compares these images
with the images of the trainer. It exits with status 1 if a comparison fails. It needs NumPy.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "I32": "<i4", "U8": "u1"}
WEIGHTS = [f"init/{i}" for i in range(6)]  # initial weights and biases, in the order that the option --init expects
TRAIN = 1437  # number of training images


def read_safetensors(path):
    """Return the tensors of a file by name, and the parsed JSON under `case` in its metadata."""
    raw = path.read_bytes()
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:begin])
    case = json.loads(header.pop("__metadata__")["case"])
    tensors = {}
    for name, entry in header.items():
        first, last = (begin + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(raw[first:last], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors, case


def settings_arguments(case):
    """Return the arguments with which the trainer's Shampoo gets the optimizer settings of the case."""
    if len(case["groups"]) != 1 or case["param_dtype"] != "f64":
        raise ValueError("only float64 cases with one group can be compared")
    group = dict(case["groups"][0])
    grafting = group.pop("grafting")
    precision = group.pop("precision")
    if group.pop("preconditioner_dtype") is not None or set(precision.values()) != {"f64"}:
        raise ValueError("only cases whose states and computations are all in float64 can be compared")
    del group["params"]
    group["inverse_root_override"] = group.pop("inv_root_override")
    # The case has no values for keys that exist only in libshampoo. With the preset, these keys have values for which
    # libshampoo computes the same steps as the reference implementation.
    settings = {"preset": "shampoo_2024", "grafting": grafting["type"]}
    settings.update({f"grafting_{key}": value for key, value in grafting.items() if key != "type"})
    settings.update({key: str(value).lower() if isinstance(value, bool) else value for key, value in group.items()})
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def train(trainer, data, tensors, case):
    """Run the trainer. Return one row for each step, with two columns: the losses of Shampoo and of AdamW."""
    batches = tensors.get("batches")
    if batches is None:  # each step uses all training images
        batches = np.tile(np.arange(TRAIN), (case["steps"], 1))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        np.concatenate([tensors[name].ravel() for name in WEIGHTS]).astype("<f8").tofile(folder / "init")
        batches.astype("<i4").tofile(folder / "batches")
        command = [trainer, "--data", data, "--schedule", "constant", "--csv", ""]
        command += ["--init", folder / "init", "--batches", folder / "batches", "--batch", str(batches.shape[1])]
        command += ["--step-losses", folder / "losses", "--adamw-lr", str(case["adamw_comparison"]["lr"])]
        command += ["--weight-decay", "0", *settings_arguments(case)]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.strip())
        if "float64" not in run.stdout:
            raise RuntimeError(f"{trainer} computes in float32; pass the path of train_digits_f64 to --trainer")
        return np.loadtxt(folder / "losses", delimiter=",", skiprows=1)[:, 1:]


def check_case(trainer, data, path):
    """Train on a recorded case. Return whether all losses agree with the recorded losses, and a message."""
    tensors, case = read_safetensors(path)
    expected = np.column_stack([tensors["loss"], case["adamw_comparison"]["losses"]])
    losses = train(trainer, data, tensors, case)
    if losses.shape != expected.shape:
        return False, f"{len(losses)} losses, expected {len(expected)}"
    shares = np.abs(losses - expected) / np.array(case["loss_atol"])[:, None]
    step, column = np.unravel_index(np.argmax(np.where(np.isnan(shares), np.inf, shares)), shares.shape)
    where = f"step {step + 1} of {len(losses)}, {('Shampoo', 'AdamW')[column]}"
    text = (f"largest difference at {where}: loss {losses[step, column]:.12g}, recorded {expected[step, column]:.12g};"
            f" the difference is {shares[step, column]:.2g} times the allowed difference")
    return bool(np.all(shares <= 1)), text


def check_images(data, path):
    """Return whether the trainer's images and labels are the recorded ones, and a message."""
    tensors, _ = read_safetensors(path)
    # ../common/digits.c describes the format: 12 bytes before the images, then 64 pixels and a label for each image.
    rows = np.frombuffer(pathlib.Path(data).read_bytes()[12:], np.uint8).reshape(-1, 65)
    x = np.concatenate([tensors["x_train"], tensors["x_test"]])
    y = np.concatenate([tensors["y_train"], tensors["y_test"]])
    same = len(tensors["x_train"]) == TRAIN and np.array_equal(rows, np.column_stack([x, y]))
    return same, f"{data} {'has' if same else 'does not have'} the recorded images in the recorded order"


def main():
    folder = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", required=True, help="path of the program train_digits_f64")
    parser.add_argument("--data", default=folder / "data" / "digits.bin",
                        help="file with the images (default: data/digits.bin of the example)")
    parser.add_argument("case", nargs="+", type=pathlib.Path,
                        help="a .safetensors file with a recorded case, or data.safetensors")
    arguments = parser.parse_args()
    failures = 0
    for path in arguments.case:
        try:
            if path.name == "data.safetensors":
                passed, text = check_images(arguments.data, path)
            else:
                passed, text = check_case(arguments.trainer, arguments.data, path)
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            passed, text = False, f"{type(error).__name__}: {error}"
        failures += not passed
        print(f"{'pass' if passed else 'FAIL'}  {path.stem}: {text}", flush=True)
    print(f"{len(arguments.case) - failures} of {len(arguments.case)} pass")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
