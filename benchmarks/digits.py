# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Divides the images of handwritten digits into images for training, tuning and judging.

Tuning chooses learning rates. Judging measures the results with the chosen rates.
"""
from __future__ import annotations

import struct
from pathlib import Path

from machine import ROOT

SOURCE = ROOT / "examples" / "c_mlp" / "data" / "digits.bin"
MAGIC = b"digits8\n"
IMAGE_BYTES = 65
TRAINING, TUNING = 300, 300  # numbers of images; all other images are for judging


def read_images() -> list[bytes]:
    """Return all images with their labels, in the order of the file. This order is random."""
    content = SOURCE.read_bytes()
    counts = struct.unpack("<HH", content[len(MAGIC) : len(MAGIC) + 4])
    body = content[len(MAGIC) + 4 :]
    return [body[i * IMAGE_BYTES : (i + 1) * IMAGE_BYTES] for i in range(sum(counts))]


def write_parts(folder: Path) -> dict[str, Path]:
    """Write two files, and return their paths under the names "tuning" and "judging".

    Both files have the images for training. "tuning" also has the images for tuning, and "judging" those for judging.
    """
    images = read_images()
    training, tuning, judging = images[:TRAINING], images[TRAINING : TRAINING + TUNING], images[TRAINING + TUNING :]
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, tested in (("tuning", tuning), ("judging", judging)):
        paths[name] = folder / f"digits-{name}.bin"
        paths[name].write_bytes(MAGIC + struct.pack("<HH", len(training), len(tested)) + b"".join(training + tested))
    return paths
