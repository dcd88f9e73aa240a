#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""example.py --root REPOSITORY --cargo CARGO --prefix PREFIX --trainer TRAINER --out FOLDER

Builds a copy of examples/rust_digits as a user would: with packages of the crates libshampoo-sys and libshampoo, and
with the library that is installed in PREFIX. Cargo finds no other packages. The script then runs the built program and
TRAINER, the program of examples/c_mlp. It checks that both programs compute bit-identical losses, once with the default
keys and once with preset=soap.
"""
import argparse
import csv
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--root", type=Path, required=True)
parser.add_argument("--cargo", required=True)
parser.add_argument("--prefix", type=Path, required=True)
parser.add_argument("--trainer", type=Path, required=True)
parser.add_argument("--out", type=Path, required=True)
options = parser.parse_args()
shutil.rmtree(options.out, ignore_errors=True)
home, packages, project = (options.out / name for name in ("home", "packages", "rust_digits"))
home.mkdir(parents=True)

# Package the two crates, and unpack the packages into a folder that replaces crates.io.
for crate in ("libshampoo-sys", "libshampoo"):
    command = [options.cargo, "package", "--quiet", "--no-verify", "--allow-dirty", "-p", crate]
    subprocess.run(command, cwd=options.root / "bindings/rust", check=True)
    (package,) = Path(os.environ["CARGO_TARGET_DIR"], "package").glob(f"{crate}-[0-9]*.crate")
    with tarfile.open(package) as archive:
        archive.extractall(packages)
    folder = packages / package.stem
    assert {"LICENSE", "README.md", "src"} <= {path.name for path in folder.iterdir()}, folder
    checksum = {"files": {}, "package": hashlib.sha256(package.read_bytes()).hexdigest()}
    folder.joinpath(".cargo-checksum.json").write_text(json.dumps(checksum), encoding="ascii")
home.joinpath("config.toml").write_text(
    f'[source.crates-io]\nreplace-with = "packages"\n[source.packages]\ndirectory = "{packages}"\n', encoding="utf-8"
)

# Copy the example, and remove the paths of the crates from its manifest, so that Cargo uses the packages.
shutil.copytree(options.root / "examples/rust_digits", project, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
manifest = project / "Cargo.toml"
text, replaced = re.subn(r'path = "[^"]*bindings[^"]*", ', "", manifest.read_text(encoding="utf-8"))
assert replaced == 2, text
manifest.write_text(text, encoding="utf-8")

# The build gets only these environment variables. SHAMPOO_LIB_DIR is missing, so pkg-config must find the library.
environment = {name: os.environ[name] for name in ("PATH", "RUSTC", "HOME") if name in os.environ}
environment.update(CARGO_HOME=str(home), CARGO_NET_OFFLINE="true")
environment["PKG_CONFIG_PATH"] = str(next(options.prefix.glob("lib*/**/shampoo.pc")).parent)
subprocess.run([options.cargo, "build", "--quiet", "--release"], cwd=project, env=environment, check=True)

data = options.root / "examples/c_mlp/data/digits.bin"


def read(path):
    return [[float(cell) for cell in row] for row in list(csv.reader(path.open()))[1:]]


def compare(kind, epochs, *more):
    """Compare the losses of the programs in Rust and in C. Return the loss before training and after each epoch."""
    rows, tables = {}, {}
    for name, program in (("rust", project / "target/release/train_digits"), ("c", options.trainer)):
        files = [options.out / f"{name}_{kind}.{suffix}" for suffix in ("losses", "csv")]
        arguments = ["--data", data, "--epochs", epochs, "--step-losses", files[0], "--csv", files[1], *more]
        # LD_LIBRARY_PATH is not set: the Rust program finds the library by the rpath that the example's build.rs sets.
        subprocess.run([program, *map(str, arguments)], env={"PATH": os.environ["PATH"]}, check=True)
        rows[name], tables[name] = map(read, files)
    assert len(rows["c"]) == epochs * 22, len(rows["c"])
    assert rows["rust"] == rows["c"], next(pair for pair in zip(rows["rust"], rows["c"]) if pair[0] != pair[1])
    # The CSV files are compared with a tolerance, because the program in C writes only nine digits.
    assert len(tables["c"]) == len(tables["rust"]) == epochs + 1, tables
    for one, other in zip(tables["rust"], tables["c"]):
        assert len(one) == 5 and all(math.isclose(*pair, rel_tol=1e-8) for pair in zip(one, other)), (one, other)
    print(f"{kind}: {len(rows['c'])} steps, each bit-identical to C")
    return [row[1] for row in tables["rust"]]


# 12 epochs are about half of the default number. After them, even a difference of one bit at the start is visible in
# the losses.
defaults = compare("defaults", 12)
soap = compare("soap", 1, "--set", "preset=soap")
assert soap[0] == defaults[0] > 2 and soap[1] < 1, (soap, defaults)  # measured: 2.36 and 0.40
