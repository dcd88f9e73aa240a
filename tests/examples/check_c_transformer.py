#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_c_transformer.py FOLDER PLOT: runs c_transformer as a user does.

FOLDER has the built programs of the example. PLOT is examples/plot.py.

Checks that
- the gradients agree with finite differences of the loss;
- the validation loss of a tiny model starts at about log(64) = 4.16, the loss of equal probabilities for all 64 tokens;
- after 30 steps, the validation loss is below 3.3 with Shampoo and with AdamW, and lower with Shampoo than with AdamW;
- two runs give the same losses to the last digit;
- with --compare and --compare-frequencies, the losses of AdamW are the same as in a separate run of AdamW;
- the picture is an SVG that names all compared runs.
"""
import csv
import math
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

programs, plot = map(pathlib.Path, sys.argv[1:])
TINY = "--layers 1 --width 32 --heads 2 --context 32 --batch 16 --steps 30 --warmup 3 --every 10 --threads 2".split()
TINY += "--lr 0.04 --adamw-lr 0.01".split()
FREQUENT = ["--set", "precondition_frequency=5"]


def train(folder, *options):
    """Train and draw the curves. Return the rows of the CSV file, and the root element of the picture."""
    table, picture = folder / "curves.csv", folder / "curves.svg"
    command = [programs / "train_text", *TINY, *options, "--csv", table]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, plot, table, picture], check=True)
    return list(csv.DictReader(table.open())), xml.etree.ElementTree.parse(picture).getroot()


def losses(rows):
    return [(row["step"], row["training_loss"], row["validation_loss"]) for row in rows]


subprocess.run([programs / "check_gradients"], check=True)
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    last = {}
    for optimizer in ("adamw", "shampoo"):
        rows, _ = train(folder, "--optimizer", optimizer, *FREQUENT)
        again, _ = train(folder, "--optimizer", optimizer, *FREQUENT)
        first, last[optimizer] = (float(row["validation_loss"]) for row in (rows[0], rows[-1]))
        print(f"{optimizer}: validation loss {first:.4f}, after 30 steps {last[optimizer]:.4f}")
        assert abs(first - math.log(64)) < 0.1, "the initial loss is not that of equal probabilities"
        assert last[optimizer] < 3.3, "the loss did not fall below 3.3"
        assert losses(rows) == losses(again), (rows, again)
        if optimizer == "adamw":
            adamw = rows
    assert last["shampoo"] < last["adamw"], last

    for option, expected in (
        ("--compare", ["AdamW", "KL-Shampoo", "Muon", "SOAP", "Shampoo"]),
        ("--compare-frequencies", ["AdamW", "Shampoo every 10th", "Shampoo every 50th", "Shampoo every step"]),
    ):
        rows, drawing = train(folder, option)
        runs = sorted({row["run"] for row in rows})
        assert runs == expected, runs
        assert losses(row for row in rows if row["run"] == "AdamW") == losses(adamw)
        assert drawing.tag.endswith("svg")
        words = " ".join(text.strip() for text in drawing.itertext())
        assert all(run in words for run in runs), words
