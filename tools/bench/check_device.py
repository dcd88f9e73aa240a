#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks shampoo_bench: the JSON with --device cuda, the JSON with --period on the CPU and on CUDA, and the errors.

check_device.py PROGRAM PLUGIN    PLUGIN is the CUDA backend that uses the fake CUDA
"""
import json
import os
import subprocess
import sys
import tempfile

SHAPES = ((64, 48), (5, 9, 40), (100,))
BLOCK = 40
PERIOD = 4


def require(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(f"check_device: {text}")


def run(program: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)


def check_settings(row: dict, keys: dict) -> None:
    require(row["block"] == BLOCK and row["threads"] == 1 and row["keys"] == keys, f"wrong settings: {row}")
    require(row["parameters"] == 64 * 48 + 5 * 9 * 40 + 100, f"wrong number of parameters: {row['parameters']}")
    require(row["state_bytes"] > 0 and row["workspace_bytes"] > 0, f"a byte count is not positive: {row}")
    require(row["root_retried"] == 0, f"{row['root_retried']} roots needed the recovery ladder")


def measure(program: str, plugin: str, folder: str, *arguments: str) -> dict:
    path = os.path.join(folder, "report.json")
    shapes = ",".join("x".join(map(str, shape)) for shape in SHAPES)
    done = run(program, "--plugin", plugin, "--json", path, "--min-runs", "1", "--shapes", shapes, "--block", str(BLOCK),
               *arguments)
    require(done.returncode == 0, done.stderr)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def check_rows(program: str, plugin: str, folder: str) -> None:
    for method in ("eigen", "newton"):
        report = measure(program, plugin, folder, "--device", "cuda", "--set", f"root_method={method}", "--set",
                         "root_max_iterations=20")
        require(report["device"] == "cuda" and report["periods"] == [] and len(report["rows"]) == 1,
                f"expected the device cuda, one row and no periods: {report}")
        row = report["rows"][0]
        check_settings(row, {"root_method": method, "root_max_iterations": "20"})
        for kind in ("ordinary", "with_roots"):
            require(row[f"{kind}_ms"] > 0 and row[f"{kind}_host_ms"] > 0 and row[f"{kind}_runs"] >= 1,
                    f"a time or a count of {kind} is not positive: {row}")
        for frequency in (1, 10, 50):
            mean = row["ordinary_ms"] + (row["with_roots_ms"] - row["ordinary_ms"]) / frequency
            require(abs(row["mean_ms"][str(frequency)] - mean) <= 1e-6 * mean, f"wrong mean_ms at {frequency}: {row}")


def check_periods(program: str, plugin: str, folder: str) -> None:
    for device in ("cpu", "cuda"):
        for key, value in (("root_spread", "true"), ("root_async", "2"), ("beta1", "0.9")):
            report = measure(program, plugin, folder, "--device", device, "--threads", "1", "--period", str(PERIOD), "--set",
                             f"{key}={value}")
            require(report["device"] == device and report["rows"] == [], f"wrong device, or there are rows: {report}")
            row = report["periods"][0]
            check_settings(row, {key: value})
            require(row["period"] == PERIOD, f"wrong period: {row}")
            for name in ("mean_ms", "longest_ms", "longest_host_ms"):
                require(row[name] > 0, f"{name} is not positive: {row}")


def check_errors(program: str) -> None:
    cases: list[list[str]] = [
        ["--device", "cuda", "--plugin", "/nowhere/plugin.so", "/nowhere/plugin.so"],
        ["--device", "tpu", "--device tpu: expected cpu or cuda"],
        ["--device", "cuda", "--grid", "--case", "gpt2", "--device cuda cannot be combined with --grid"],
        ["--set", "root_async=2", "--set root_async: expected --period N"],
    ]
    for *arguments, words in cases:
        done = run(program, *arguments)
        require(done.returncode == 1 and words in done.stderr,
                f"{arguments}: status {done.returncode} and message {done.stderr!r}; expected status 1 and {words!r}")


def main() -> None:
    program, plugin = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        check_rows(program, plugin, folder)
        check_periods(program, plugin, folder)
    check_errors(program)


if __name__ == "__main__":
    main()
