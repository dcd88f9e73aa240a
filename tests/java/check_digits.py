#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs examples/java_digits as a user would, and compares its losses with those of examples/c_mlp in C.

    check_digits.py --jdk FOLDER --jar JAR --example FOLDER --trainer train_digits_f64 --data FILE --epochs N [--soap]

The script copies the example, the jar and the images into an empty folder, and builds and runs it there with an empty
environment. Both examples make the same operations in float64 in the same order, but tanh, exp and cos differ in their
last bits between Java and C. With SETTINGS, seeds 1 to 3 and 25 epochs, the largest relative difference of the losses
is 4e-12. Increasing every tanh by one unit in the last place causes a difference of the same size. The tolerance of
1e-10 leaves room for other versions of Java and of the C library.

With --soap, the script also trains with preset=soap for one epoch. The first factor matrices are rank-deficient, so
rounding errors determine parts of their eigenbases. Only the first two losses, which are computed before an eigenbasis
is used, are compared with the example in C.
"""
from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import tempfile
from pathlib import Path

TOLERANCE = 1e-10
# With inverse fourth roots, a large epsilon and few refreshes, rounding errors grow little. The keys are set here, so
# that the tolerance does not depend on the defaults.
SETTINGS = ["--set", "preset=shampoo_2024", "--set", "grafting=adam", "--set", "beta2=0.99", "--set", "epsilon=1e-6",
            "--set", "precondition_frequency=10", "--set", "max_preconditioner_dim=128"]  # fmt: skip


def rows(path: Path) -> list[dict[str, float]]:
    """Return the rows of a CSV file of numbers."""
    with path.open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def compare(expected: list[dict[str, float]], found: list[dict[str, float]], tolerance: float) -> float:
    """Check that no relative difference is above the tolerance, and return the largest one."""
    assert len(expected) == len(found) > 1, (len(expected), len(found))
    worst = 0.0
    for one, other in zip(expected, found):
        assert one.keys() == other.keys(), (one, other)
        for name, value in one.items():
            difference = abs(other[name] - value) / max(abs(value), 1e-300)
            assert difference <= tolerance, (name, one, other, difference)
            worst = max(worst, difference)
    return worst


def check_soap(folder: Path, java: list[str], trainer: list[str]) -> None:
    """Train in both languages with preset=soap. Compare the first losses and the printed sizes of the states."""
    more = ["--epochs", "1", "--set", "preset=soap"]
    states = []
    for name, command in (("java", java), ("c", trainer)):
        command = [*command, *more, "--csv", f"soap_{name}.csv", "--step-losses", f"soap_steps_{name}.csv"]
        printed = subprocess.run(command, cwd=folder, env={}, check=True, stdout=subprocess.PIPE, text=True).stdout
        states += [line for line in printed.splitlines() if line.startswith("state ")]
        losses = [row["shampoo_train_loss"] for row in rows(folder / f"soap_{name}.csv")]
        assert len(losses) == 2 and losses[1] < 1 and losses[0] > 2, losses  # measured: 2.36 and 0.43
    steps = [rows(folder / f"soap_steps_{name}.csv") for name in ("c", "java")]
    compare(steps[0][:2], steps[1][:2], TOLERANCE)
    assert len(states) == 2 and states[0] == states[1], states


def main() -> None:
    """Train in both languages and compare the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("jdk", "jar", "example", "trainer", "data"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--epochs", required=True)
    parser.add_argument("--soap", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(options.example, folder / "java_digits")
        here = folder / "java_digits"
        shutil.copy(options.jar, here / "libshampoo.jar")
        shutil.copy(options.data, folder / "digits.bin")

        def run(*command: str) -> str:
            return subprocess.run(command, cwd=here, env={}, check=True, stdout=subprocess.PIPE, text=True).stdout

        sources = [str(path.relative_to(here)) for path in sorted(here.glob("src/*.java"))]
        run(f"{options.jdk}/javac", "-Xlint:all", "-Werror", "-cp", "libshampoo.jar", "-d", "classes", *sources)
        java = (f"{options.jdk}/java", "-cp", "classes:libshampoo.jar", "Train")
        data = ("--data", "../digits.bin", "--epochs", options.epochs, *SETTINGS)
        printed = run(*java, *data, "--step-losses", "steps.csv")
        subprocess.run(
            [options.trainer, "--data", options.data, "--epochs", options.epochs, *SETTINGS, "--csv", folder / "c.csv",
             "--step-losses", folder / "c_steps.csv"], check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        worst = compare(rows(folder / "c_steps.csv"), rows(here / "steps.csv"), TOLERANCE)
        compare(rows(folder / "c.csv"), rows(here / "curves.csv"), 1e-8)  # the trainer in C writes 9 digits
        if options.soap:
            check_soap(here, [*java, "--data", "../digits.bin"], [str(options.trainer), "--data", "../digits.bin"])
        rejected = subprocess.run([*java, "--epochs", "none"], cwd=here, env={}, stderr=subprocess.PIPE, text=True)
        assert rejected.returncode == 1 and '--epochs: "none"' in rejected.stderr, rejected
        assert "\r" not in printed, "a progress line is printed although there is no terminal"
        print(printed, f"largest difference from C: {worst:.2g}", sep="\n")


if __name__ == "__main__":
    main()
