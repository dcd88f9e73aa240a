#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_c_mlp.py TRAINER DATA PLOT: runs c_mlp as a user does and checks the files that it writes.

With Shampoo, at least 97 % of the test images must be recognized, and the loss must fall by a factor of 100 or more.
Shampoo and AdamW must start with the same loss. The picture must be an SVG that names both optimizers.
"""
import csv
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

trainer, data, plot = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    curves, picture = pathlib.Path(folder, "curves.csv"), pathlib.Path(folder, "curves.svg")
    subprocess.run([trainer, "--data", data, "--csv", curves], check=True)
    subprocess.run([sys.executable, plot, curves, picture], check=True)
    rows = list(csv.DictReader(curves.open()))
    drawing = xml.etree.ElementTree.parse(picture).getroot()

first, last = rows[0], rows[-1]
accuracy = float(last["shampoo_test_accuracy"])
print(f"test accuracy with Shampoo: {100 * accuracy:.2f} %")
assert accuracy >= 0.97, "below 97 %"
assert float(last["shampoo_train_loss"]) < 0.01 * float(first["shampoo_train_loss"]), rows
assert first["shampoo_train_loss"] == first["adamw_train_loss"], "the optimizers start from different weights"
assert drawing.tag.endswith("svg")
words = " ".join(text.strip() for text in drawing.itertext())
assert "Shampoo" in words and "AdamW" in words, words
