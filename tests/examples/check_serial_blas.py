#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_serial_blas.py FOLDER SERIAL SOURCE PREFIX CMAKE: runs c_transformer with a BLAS that is not thread-safe.

FOLDER has the programs train_text and check_gradients of the example c_transformer. They are linked to a threaded
OpenBLAS. SERIAL is the folder of Debian's serial OpenBLAS. SOURCE is the folder of the example, PREFIX is the folder in
which libshampoo is installed, and CMAKE is the path of cmake.

Checks that
- with the serial OpenBLAS, both programs reject two threads before they write anything, and the error names the package
  to install;
- with one thread, the serial OpenBLAS gives the same losses as the threaded OpenBLAS;
- with the threaded OpenBLAS, both programs accept two threads;
- CMake warns if it finds the serial OpenBLAS, and does not warn if it finds the threaded OpenBLAS.
"""
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

programs, serial, source, prefix, cmake = map(pathlib.Path, sys.argv[1:6])
PACKAGE = "libopenblas-pthread-dev"
TINY = "--layers 1 --width 32 --heads 2 --context 32 --batch 16 --steps 4 --every 2 --warmup 1".split()


def run(name, *options, library=None):
    environment = dict(os.environ)
    environment.pop("LD_LIBRARY_PATH", None)
    if library is not None:
        environment["LD_LIBRARY_PATH"] = str(library)
    return subprocess.run([programs / name, *options], capture_output=True, text=True, timeout=300, check=False,
                          env=environment)


def train(table, threads, library=None):
    result = run("train_text", *TINY, "--threads", str(threads), "--csv", str(table), library=library)
    if result.returncode != 0:
        return result, None
    rows = list(csv.DictReader(table.open()))
    return result, [(row["step"], row["training_loss"], row["validation_loss"]) for row in rows]


def check_refused(result):
    assert result.returncode == 1 and not result.stdout, result
    for words in ("serial build", "SINGLE_THREADED", "2 threads", PACKAGE, "--threads 1"):
        assert words in result.stderr, (words, result.stderr)


def configure(build, package_path):
    command = [cmake, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}"]
    result = subprocess.run(command, capture_output=True, text=True, check=True,
                            env={**os.environ, "PKG_CONFIG_PATH": str(package_path)})
    return result.stderr


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    refused, losses = train(folder / "refused.csv", 2, serial)
    assert losses is None, "two threads were accepted with the serial build"
    check_refused(refused)
    assert not (folder / "refused.csv").exists(), "a rejected run has created its CSV file"
    check_refused(run("check_gradients", library=serial))

    _, alone = train(folder / "serial.csv", 1, serial)
    _, safe = train(folder / "safe.csv", 1)
    assert alone is not None and alone == safe, (alone, safe)
    accepted, losses = train(folder / "threads.csv", 2)
    assert losses is not None, accepted
    gradients = run("check_gradients")
    assert gradients.returncode == 0, gradients

    warning = configure(folder / "with_serial", serial / "pkgconfig")
    assert "serial build" in warning and PACKAGE in warning, warning
    assert "serial build" not in configure(folder / "with_threads", ""), "CMake warned of the threaded OpenBLAS"
