#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""finding.py CARGO FOLDER VERSION: checks the error messages of the build of libshampoo-sys.

The build must fail if it does not find the library or pkg-config, or if pkg-config finds another version than VERSION.
The message must name the cause and say what to set.
"""
import os
import subprocess
import sys
from pathlib import Path

cargo, folder, version = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
empty, other, shared = folder / "empty", folder / "other", folder / "shared"
empty.mkdir(parents=True, exist_ok=True)
other.mkdir(parents=True, exist_ok=True)
other.joinpath("shampoo.pc").write_text("Name: shampoo\nDescription: other\nVersion: 9.7.5\nlibdir=/nowhere\n", encoding="ascii")
bare = {name: value for name, value in os.environ.items() if name not in ("SHAMPOO_LIB_DIR", "PKG_CONFIG_PATH")}
bare.update(CARGO_TARGET_DIR=str(folder / "target"), PKG_CONFIG_LIBDIR=str(empty))


def expect(words: list[str], features: str = "", **changes: str) -> None:
    command = [cargo, "check", "--quiet", "--locked", "-p", "libshampoo-sys", "--features", features]
    run = subprocess.run(command, env={**bare, **changes}, stderr=subprocess.PIPE, text=True)
    assert run.returncode != 0, f"{changes}: the build succeeded; expected an error"
    missing = [word for word in ["libshampoo was not found", "PKG_CONFIG_PATH", *words] if word not in run.stderr]
    assert not missing, f"{changes}: {missing} not in\n{run.stderr}"


expect(["SHAMPOO_LIB_DIR", str(empty), "libshampoo.so"], SHAMPOO_LIB_DIR=str(empty))
expect(["shampoo"])
# The feature `static` needs libshampoo.a, but the folder `shared` has only libshampoo.so.
shared.mkdir(parents=True, exist_ok=True)
shared.joinpath("libshampoo.so").touch()
shared.joinpath("shampoo.pc").write_text(
    f"Name: shampoo\nDescription: shared\nVersion: {version}\nlibdir={shared}\nincludedir=/\n", encoding="ascii"
)
for changes in ({"SHAMPOO_LIB_DIR": str(shared)}, {"PKG_CONFIG_LIBDIR": str(shared)}):
    expect([str(shared), "libshampoo.a", "-DSHAMPOO_STATIC=ON"], "static", **changes)
expect(["/no/such/pkg-config"], PKG_CONFIG="/no/such/pkg-config")
expect(["9.7.5", "this crate needs"], PKG_CONFIG_LIBDIR=str(other))
# If DOCS_RS is set, as on docs.rs, the build succeeds without the library.
subprocess.run([cargo, "check", "--quiet", "--locked", "-p", "libshampoo-sys"], env={**bare, "DOCS_RS": "1"}, check=True)
