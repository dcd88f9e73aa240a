#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""other_version.py COMPILER EXPORTS PROGRAM: runs the test library::another_version_is_rejected of PROGRAM.

The script builds a library with all functions of libshampoo, whose names are in the file EXPORTS. In this library,
shampoo_version() returns version 9.7.5, and all other functions abort the process.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

compiler, exports, program = sys.argv[1:]
names = Path(exports).read_text(encoding="ascii").split()
lines = ["#include <stdlib.h>", "int shampoo_version(void) { return 90705; }"]
lines += [f"void {name}(void) {{ abort(); }}" for name in names if name != "shampoo_version"]
with tempfile.TemporaryDirectory() as folder:
    source = Path(folder, "other.c")
    source.write_text("\n".join(lines) + "\n", encoding="ascii")
    library = Path(folder, "libshampoo.so.0")
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
    test = [program, "--ignored", "--exact", "library::another_version_is_rejected"]
    environment = {**os.environ, "LD_LIBRARY_PATH": folder}
    run = subprocess.run(test, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
print(run.stdout)
sys.exit(run.returncode or "1 passed" not in run.stdout)
