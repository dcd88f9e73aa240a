# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The images, the options and the batches of a training. jax_digits and tinygrad_digits use this file, too."""
from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

TRAIN = 1437  # number of training images; the last 360 of the 1797 images are the test images


def load_digits(path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return images (pixels from 0 to 1) and labels: from the file `path`, or from scikit-learn if path is None."""
    if path is not None:
        content = Path(path).read_bytes()
        train, test = struct.unpack_from("<HH", content, 8)
        rows = np.frombuffer(content, np.uint8, (train + test) * 65, 12).reshape(-1, 65)
    else:
        from sklearn import datasets

        digits = datasets.load_digits()
        rows = np.concatenate([digits.data, digits.target[:, None]], axis=1).astype(np.uint8)
        rows = rows[np.random.default_rng(1).permutation(len(rows))]
    return rows[:, :64].astype(np.float32) / np.float32(16), rows[:, 64].astype(np.int32)


def read_options(description: str | None) -> argparse.Namespace:
    """Return the options of the command line, with the total number of steps in the attribute `steps`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", help="file of the images; by default, scikit-learn provides the images")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--preset", default="shampoo", help="preset of libshampoo, such as soap or kl_shampoo")
    parser.add_argument("--csv", default="curves.csv", help="file for the curves; an empty name means no file")
    options = parser.parse_args()
    options.steps = options.epochs * (TRAIN // options.batch)
    return options


def batches(options: argparse.Namespace) -> Iterator[tuple[int, np.ndarray, bool]]:
    """For each step, yield its number, the indices of its images, and whether the step is the last of an epoch."""
    random = np.random.default_rng(options.seed)
    per_epoch = TRAIN // options.batch
    for step in range(options.steps):
        place = step % per_epoch
        if place == 0:
            order = random.permutation(TRAIN)
        yield step, order[place * options.batch :][: options.batch], place == per_epoch - 1
