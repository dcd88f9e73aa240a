#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests tests/gpu.sh on the fake of CUDA.

    check_script.py BUILD [--long]

BUILD is a build folder with the programs that gpu.sh runs. Without --long, only stages 2 and 3 of gpu.sh run with these
programs. With --long, all stages of gpu.sh run with them. Some checks replace the programs by shell scripts.
"""
import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SCRIPT = os.path.join(ROOT, "tests", "gpu.sh")


def require(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(f"check_script: {text}")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", SCRIPT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          text=True, env={**os.environ, "PYTHON": sys.executable, **environment})


def results(folder: str) -> dict[str, dict[str, list[str]]]:
    """Returns the result and the note of each item (a single check of a stage), by stage and name of the item."""
    found: dict[str, dict[str, list[str]]] = {}
    with open(os.path.join(folder, "results.tsv"), encoding="utf-8") as file:
        for line in file:
            stage, item, result, _, note = line.rstrip("\n").split("\t")
            found.setdefault(stage, {})[item] = [result, note]
    return found


def check_usage() -> None:
    listed = run("--list")
    require(listed.returncode == 0, listed.stdout)
    require([line.split()[0] for line in listed.stdout.splitlines()] == list("12345678"), listed.stdout)
    for wrong in (["--stage", "9"], ["--stage"], ["--nothing"], ["--jobs", "0"]):
        done = run("--fake", *wrong)
        require(done.returncode == 2, f"{wrong}: {done.returncode} {done.stdout}")


def pack_of(folder: str, **programs: str) -> str:
    """Makes a pack (see --pack of gpu.sh) with shell scripts instead of programs. Returns its path."""
    path = os.path.join(folder, "scripts.tar.gz")
    with tarfile.open(path, "w:gz") as pack:
        for name, text in programs.items():
            info = tarfile.TarInfo("./" + name)
            info.mode, info.size = 0o755, len(text)
            pack.addfile(info, io.BytesIO(text.encode()))
    return path


def check_failures(folder: str) -> None:
    """Checks that a failed item ends neither its stage nor the run, and that a repeated stage replaces its results."""
    out = os.path.join(folder, "failures")
    pack = pack_of(folder, probe="#!/bin/sh\necho the reason\nexit 3\n", commit="abc\n",
                   contract="#!/bin/sh\nexit 0\n", faults="#!/bin/sh\nexit 1\n")
    done = run("--fake", "--from", pack, "--out", out, "--stage", "2", "--stage", "4", "--stage", "6")
    expected = {"2": {"probe": ["FAILED", "status 3"]},
                "4": {"contract": ["passed", ""], "against_cpu": ["skipped", "the program against_cpu was not built"],
                      "a fault of the device": ["FAILED", "status 1"]},
                "6": {"timing": ["skipped", "the program bench was not built"]}}
    require(results(out) == expected, f"{results(out)}\n{done.stdout}")
    require(done.returncode == 1 and "1 passed, 2 failed, 2 skipped" in done.stdout, done.stdout)
    with open(os.path.join(out, "stage_2.log"), encoding="utf-8") as log:
        require("the reason" in log.read(), "the log has no output of the program")
    pack = pack_of(folder, probe="#!/bin/sh\nexit 0\n", commit="abc\n")
    done = run("--fake", "--from", pack, "--out", out, "--stage", "2")
    expected["2"] = {"probe": ["passed", ""]}
    require(results(out) == expected and done.returncode == 1, f"{results(out)}\n{done.stdout}")


def check_sanitizer(folder: str) -> None:
    """Checks that a report of initcheck is a failure only if it names a kernel of libshampoo."""
    out = os.path.join(folder, "sanitizer")
    pack = pack_of(folder, contract="#!/bin/sh\nexit 0\n", bench="#!/bin/sh\nexit 3\n", commit="abc\n")
    for kernel, expected in (("", ["passed", ""]), ("shampoo::cuda::<unnamed>::PairBody<float>", ["FAILED", "status 1"])):
        done = run("--fake", "--from", pack, "--out", out, "--stage", "5", FAKE_INITCHECK_KERNEL=kernel)
        found = results(out)["5"]
        require(found["initcheck: a step"] == expected, done.stdout)
        require(found["memcheck: a step"] == ["passed", ""], done.stdout)
        require(found["initcheck: blocks of 512"] == ["FAILED", "status 3"], done.stdout)
        with open(os.path.join(out, "stage_5.log"), encoding="utf-8") as file:
            log = file.read()
        require("gemm_kernel" not in log and (kernel == "" or f"at {kernel}" in log), log)


# Replaces shampoo_bench. Writes a report with one row. The time in this row depends on the keys root_method and
# inverse_root_override. The table below calls the value of inverse_root_override "root".
BENCH = """#!/bin/sh
echo 'library    {"version": "0", "root_methods": ["eigen", "newton", "cans"]}'
echo 'device     cuda'
method=- root=0
while [ $# -gt 0 ]; do
  case $1 in
    --json) json=$2 ;;
    --block) block=$2 ;;
    root_method=*) method=${1#*=} ;;
    inverse_root_override=*) root=${1#*=} ;;
  esac
  shift
done
[ "$method,$root,$block" != cans,2,32 ] || exit 3
case $method in eigen) time=9 retried=0 ;; newton) time=$root retried=0 ;; *) time=3 retried=$((root == 4)) ;; esac
keys='{}'
[ $root = 0 ] || keys='{"root_method": "'$method'", "inverse_root_override": "'$root'"}'
row='{"block": '$block', "keys": '$keys', "ordinary_ms": 1, "with_roots_ms": 1'$time', "root_retried": '$retried'}'
echo '{"rows": ['$row']}' >"$json"
"""
ROOT_METHODS = """\
| block | root | eigen | newton | cans | fastest |
|---:|---:|---:|---:|---:|---|
| 16 | 2 | 18.000 | 11.000 | 12.000 | newton |
| 16 | 4 | 18.000 | 13.000 | 12.000 r | newton |
| 32 | 2 | 18.000 | 11.000 |  | newton |
| 32 | 4 | 18.000 | 13.000 | 12.000 r | newton |
"""


def check_timing(folder: str) -> None:
    """Checks that stage 6 measures each root method for each inverse_root_override ("root") and block size.

    The smallest blocks must be measured first. The stage must write a table.
    """
    out = os.path.join(folder, "timing")
    done = run("--fake", "--from", pack_of(folder, bench=BENCH, commit="abc\n"), "--out", out, "--stage", "6")
    items = results(out)["6"]
    methods = ("eigen", "newton", "cans")
    measured = [(method, root, block) for block in (16, 32) for root in (2, 4) for method in methods]
    expected = [f"{method}, root {root}, blocks of {block}" for method, root, block in measured]
    require([item for item in items if ", root " in item] == expected, done.stdout)
    failed = {item for item, (result, _) in items.items() if result != "passed"}
    require(failed == {"cans, root 2, blocks of 32"} and len(items) == len(expected) + 6, done.stdout)
    with open(os.path.join(out, "root_methods.txt"), encoding="utf-8") as file:
        text = file.read()
    require(text.endswith("\n\n" + ROOT_METHODS), text)


def check_limit(folder: str) -> None:
    out = os.path.join(folder, "limit")
    pack = pack_of(folder, contract="#!/bin/sh\nexec sleep 600\n", against_cpu="#!/bin/sh\nexit 0\n", commit="abc\n")
    done = run("--fake", "--from", pack, "--out", out, "--stage", "4", STAGE_LIMIT="6")
    require(results(out)["4"]["contract"] == ["FAILED", "ran out of time"], done.stdout)
    require(results(out)["4"]["against_cpu: large shapes"] == ["skipped", "no time is left in this stage"], done.stdout)
    # For shards, stage 3 runs the program replay_on_cpu nine times. All nine runs share one time limit.
    pack = pack_of(folder, replay="#!/bin/sh\nexit 1\n", replay_on_cpu="#!/bin/sh\nexec sleep 2\n", commit="abc\n")
    done = run("--fake", "--from", pack, "--out", out, "--stage", "3", STAGE_LIMIT="7")
    require(results(out)["3"]["3 shards, on the CPU"] == ["FAILED", "ran out of time"], done.stdout)


def check_stages(folder: str, build: str) -> None:
    out = os.path.join(folder, "stages")
    done = run("--fake", "--build", build, "--out", out, "--stage", "2", "--stage", "3", "--jobs", "2")
    found = results(out)
    require(done.returncode == 0 and sorted(found) == ["2", "3"], done.stdout)
    for item in ("trajectory", "trajectory: both runs are bit-identical", "trajectory, 3 ranks, params",
                 "trajectory: 3 results within tolerance", "3 shards, 2 replicas: 3 results within tolerance"):
        require(found["3"].get(item) == ["passed", ""], f"{item}: {done.stdout}")
    with open(os.path.join(out, "summary.md"), encoding="utf-8") as summary:
        require("| 2 | probe | passed |" in summary.read(), "the table lacks the probe")


def check_whole(folder: str, build: str) -> None:
    """Tests the whole script with packed programs."""
    out, pack = os.path.join(folder, "whole"), os.path.join(folder, "programs.tar.gz")
    packed = run("--fake", "--build", build, "--pack", pack)
    require(packed.returncode == 0, packed.stdout)
    done = run("--fake", "--from", pack, "--out", out)
    found = results(out)
    require(done.returncode == 0 and sorted(found) == list("12345678"), done.stdout)
    skipped = {item for items in found.values() for item, (result, _) in items.items() if result == "skipped"}
    require(skipped <= {"training", "PyTorch"}, done.stdout)
    for name in ("probe.txt", "timing.txt", "timing.json", "root_methods.txt", "kernels.txt", "gpu.txt"):
        require(os.path.getsize(os.path.join(out, name)) > 0, name)
    with open(os.path.join(out, "kernels.txt"), encoding="utf-8") as file:
        kernels = file.read().splitlines()
    # fake_tools/ncu reports seven launches. Launches 1 and 7 are of one kernel: 1001.5 + 1007.5 microseconds.
    require(len(kernels) == 7 and kernels[1].split()[:3] == ["2.009", "28.6%", "2"], "\n".join(kernels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.long:
            check_limit(folder)
            check_whole(folder, options.build)
        else:
            check_usage()
            check_failures(folder)
            check_sanitizer(folder)
            check_timing(folder)
            check_stages(folder, options.build)


if __name__ == "__main__":
    main()
