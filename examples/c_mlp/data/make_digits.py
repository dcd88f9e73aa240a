#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Converts the handwritten digits of scikit-learn to digits.bin, which several examples read.

    pip install scikit-learn && python3 make_digits.py

digits.bin is already in the repository; this script documents how it was made. ../../common/digits.c
describes its format.
"""
import pathlib
import struct

import numpy as np
from sklearn.datasets import load_digits

TRAIN = 1437  # number of training images; the other 360 of the 1797 images are test images

digits = load_digits()
rows = np.concatenate([digits.data, digits.target[:, None]], axis=1).astype(np.uint8)
rows = rows[np.random.default_rng(1).permutation(len(rows))]
path = pathlib.Path(__file__).with_name("digits.bin")
path.write_bytes(b"digits8\n" + struct.pack("<HH", TRAIN, len(rows) - TRAIN) + rows.tobytes())
print(f"{path}: {TRAIN} training images, {len(rows) - TRAIN} test images")
