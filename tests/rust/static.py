#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""static.py --root REPOSITORY --cargo CARGO --archive libshampoo.a --prefix PREFIX --out FOLDER

Runs the first program of docs/rust.md twice, with `cargo run` and the feature `static`. The program has no build.rs. In
the first run, SHAMPOO_LIB_DIR is a folder with the archive. In the second run, pkg-config finds the library that is
installed in PREFIX. The script checks that the program does not need the shared library.
"""
import argparse
import os
import re
import shutil
import subprocess
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name in ("root", "archive", "prefix", "out"):
    parser.add_argument(f"--{name}", type=Path, required=True)
parser.add_argument("--cargo", required=True)
options = parser.parse_args()
shutil.rmtree(options.out, ignore_errors=True)
archive = options.out / "archive"
archive.mkdir(parents=True)
archive.joinpath("libshampoo.a").symlink_to(options.archive)

guide = options.root.joinpath("docs/rust.md").read_text(encoding="utf-8")
snippet = re.search(r"```toml\n(.*?)```", guide, re.DOTALL)[1]
assert 'features = ["static"]' in snippet, snippet
source = re.search(r"```rust\n(.*?)```", guide, re.DOTALL)[1]
project = options.out / "program"
project.joinpath("src").mkdir(parents=True)
dependencies = snippet.replace("/where/libshampoo/is", str(options.root))
project.joinpath("Cargo.toml").write_text(
    f'[package]\nname = "program"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n{dependencies}', encoding="utf-8"
)
project.joinpath("src/main.rs").write_text(source, encoding="utf-8")

# None of these variables lets Cargo or the program find the shared library.
environment = {name: os.environ[name] for name in ("PATH", "RUSTC", "HOME", "CARGO_HOME") if name in os.environ}
environment.update(CARGO_NET_OFFLINE="true", CARGO_TARGET_DIR=str(options.out / "target"))
installed = str(next(options.prefix.glob("lib*/**/shampoo.pc")).parent)
for change in ({"SHAMPOO_LIB_DIR": str(archive)}, {"PKG_CONFIG_PATH": installed}):
    run = subprocess.run(
        [options.cargo, "run", "--quiet"], cwd=project, env={**environment, **change}, stdout=subprocess.PIPE, text=True, check=True
    )
    assert re.fullmatch(r"w = \[-?[0-9.e-]+(, -?[0-9.e-]+){5}\]\n", run.stdout), run.stdout
    dynamic = ["readelf", "-d", options.out / "target/debug/program"]
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(dynamic, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert needed and not any("shampoo" in name for name in needed), needed
    print(f"{change}: needs {' '.join(needed)}")
