#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_plot.py EXAMPLES: checks the pictures and the errors of plot.py. EXAMPLES is the folder that contains plot.py.

Checks that
- a curve has a point for each row before the first value that is not finite;
- the title, the notes and the last value of each curve are in the picture;
- if a file is not the output of an example, the error contains the name of the file and the reason;
- the picture of c_transformer equals the output of the command in its README.
"""
import re
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

examples = Path(sys.argv[1]).resolve()
RUNS = "run,learning_rate,step,seconds,training_loss,validation_loss\n"
EPOCHS = "epoch,shampoo_train_loss,adamw_train_loss,shampoo_test_accuracy,adamw_test_accuracy\n"
SVG = "{http://www.w3.org/2000/svg}"


def plot(folder, *options):
    command = [sys.executable, examples / "plot.py", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def draw(folder, content, *options):
    """Return the number of points of each curve, and the strings in the picture."""
    (folder / "curves.csv").write_text(content)
    result = plot(folder, "curves.csv", "curves.svg", *options)
    assert result.returncode == 0, result
    drawing = xml.etree.ElementTree.parse(folder / "curves.svg").getroot()
    curves = [len(curve.get("points").split()) for curve in drawing.iter(SVG + "polyline")]
    return curves, [text for text in drawing.itertext() if text.strip()]


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    rows = "".join(f"AdamW,0.004,{s},{s / 7},2,{4 - s / 20}\n" for s in range(0, 50, 10))
    rows += "".join(f"Shampoo,0.008,{s},{s / 5},2,{loss}\n" for s, loss in ((0, 4), (10, 2.5), (20, "nan"), (30, 1)))
    curves, words = draw(folder, RUNS + rows, "--title", "Losses & times", "--note", "one", "--note", "seed 1 < 2")
    assert sorted(curves) == [2, 2, 5, 5], curves
    assert {"Losses & times", "one", "seed 1 < 2", "AdamW", "Shampoo", "step", "seconds"} <= set(words), words
    # Each of the two panels draws the last value of a curve twice: first its white outline, then its characters.
    assert words.count("2.0000") == 4 and words.count("2.5000") == 4, words

    rows = "0,2.3,2.3,0.1,0.1\n1,0.5,0.4,0.9,0.8\n2,0.25,inf,0.95,0.85\n"
    curves, words = draw(folder, EPOCHS + rows)
    assert sorted(curves) == [2, 3, 3, 3], curves
    assert {"Shampoo", "AdamW", "epoch", "0.25", "0.40", "95.00", "85.00"} <= set(words), words

    for content, reason in (
        ("", "no rows"),
        (RUNS, "no rows"),
        ("step,loss\n1,2\n", "unknown columns: step, loss; expected run, step, seconds"),
        (RUNS + "AdamW,0.1,0,0,,nan\n", "no run has two finite losses"),
        (RUNS + "AdamW,0.1,0,0,,4.2\n", "no run has two finite losses"),
        (EPOCHS + "0,2.3,2.3,0.1,0.1\n", "no run has two finite losses"),
        (EPOCHS + rows + "3,0.2,0.2,ninety,0.9\n", "'ninety'"),
        (EPOCHS + rows + "3,0.2\n", "row 4 has 2 of 5 columns"),
    ):
        (folder / "wrong.csv").write_text(content)
        result = plot(folder, "wrong.csv", "wrong.svg")
        assert result.returncode == 1 and result.stderr.startswith("plot.py: wrong.csv: "), (content, result)
        assert reason in result.stderr and not (folder / "wrong.svg").exists(), (content, result)
    for options in (("nowhere.csv", "curves.svg"), ("curves.csv", "nowhere/curves.svg")):
        result = plot(folder, *options)
        assert result.returncode == 1 and "nowhere" in result.stderr and "No such file" in result.stderr, result

    page = (examples / "c_transformer/README.md").read_text(encoding="utf-8")
    found = re.search(r"^python3 \.\./plot\.py compare\.csv(.*\\\n)*.*", page, re.M)
    command = shlex.split(found[0].replace("\\\n", ""))
    source, target = examples / "c_transformer" / command[2], examples / "c_transformer" / command[3]
    result = plot(folder, source, "drawn.svg", *command[4:])
    assert result.returncode == 0, result
    drawn = (folder / "drawn.svg").read_text()
    assert drawn == target.read_text(), f"{target} differs from the output of the command in its README"
