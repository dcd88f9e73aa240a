# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks examples/PROGRAM, the first program that the guide of a language shows.

    check_minimal.py --root REPOSITORY --program PROGRAM --page PAGE [--page PAGE...] [-- COMMAND...]

The program must have at most 15 lines after its license, and each PAGE must contain these lines unchanged. If COMMAND
is passed, this script runs it in a folder that contains the program. The command must print 6 values near 0.
"""
from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

MOST_LINES = 15


def main() -> None:
    """Check one program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--page", action="append", required=True)
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()

    lines = (options.root / "examples" / options.program).read_text(encoding="utf-8").splitlines()
    assert "Copyright" in lines[0] and "SPDX" in lines[1], f"{options.program} does not begin with its license"
    program = "\n".join(lines[2:]) + "\n"
    count = len(lines) - 2
    assert count <= MOST_LINES, f"{options.program} has {count} lines; expected at most {MOST_LINES}"
    for page in options.page:
        blocks = re.findall(r"^```\w+\n(.*?)^```", (options.root / page).read_text(encoding="utf-8"), re.M | re.S)
        assert program in blocks, f"{page} has no block equal to examples/{options.program} without its license"
    if not options.command:
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, options.program).write_text(program, encoding="utf-8")
        run = subprocess.run(options.command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(run.stdout)
    assert run.returncode == 0, f"{options.program}: exit status {run.returncode}"
    printed = re.sub(r"^[^\n]*?=", "", run.stdout, flags=re.M)
    values = [float(value) for value in re.findall(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?", printed)]
    assert len(values) == 6 and max(map(abs, values)) < 0.5, f"{options.program} printed {values}; expected 6 near 0"


if __name__ == "__main__":
    main()
