#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_crates.py REPOSITORY: checks the versions, licenses and dependencies of the Rust crates.

Each crate must have the version of the header and the license of the repository, and must not depend on third-party
crates.
"""
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
header = root.joinpath("capi/include/shampoo/shampoo.h").read_text(encoding="utf-8")
version = ".".join(re.search(rf"#define SHAMPOO_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
license_text = root.joinpath("LICENSE").read_bytes()
for crate in ("libshampoo-sys", "libshampoo"):
    folder = root / "bindings/rust" / crate
    manifest = folder.joinpath("Cargo.toml").read_text(encoding="utf-8")
    found = re.search(r'^version = "(.*)"', manifest, re.MULTILINE)[1]
    assert found == version, f"{folder}: version is {found}; expected {version}, as in the header"
    dependencies = manifest.partition("[dependencies]")[2].split("\n[")[0].strip()
    expected = "" if crate == "libshampoo-sys" else f'libshampoo-sys = {{ path = "../libshampoo-sys", version = "={version}" }}'
    assert dependencies == expected, f"{folder}: dependencies are {dependencies!r}, not {expected!r}"
    assert "dependencies]" not in manifest.replace("[dependencies]", ""), f"{folder}: unexpected section of dependencies"
    assert folder.joinpath("LICENSE").read_bytes() == license_text, f"{folder}: LICENSE differs from the repository's"
