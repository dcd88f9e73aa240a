#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_vectorized.py ROOT COMPILER SOURCE [OPTION...]: checks that g++ vectorizes the elementwise loops of SOURCE.

COMPILER compiles SOURCE once, with all options OPTION and with the compiler options that this script always uses. The
loops are in the headers core/base/kernels/*.h, which SOURCE includes, and are marked with "#pragma GCC ivdep". For each
loop, g++ must report at least one instantiation as vectorized, and none as not vectorized. g++ reports nothing for
instantiations that it unrolls completely. A loop that is not vectorized computes the same results, but takes several
times as long. No other test notices such a loop.
"""
import re
import subprocess
import sys
from pathlib import Path

OPTIONS = ["-std=c++20", "-O2", "-ffp-contract=off", "-DNDEBUG", "-DSHAMPOO_X86_KERNELS=1", "-fopt-info-vec-all", "-c",
           "-o", "/dev/null"]
NOTE = re.compile(r"^(?P<file>\S+):(?P<line>\d+):\d+: "
                  r"(?P<kind>missed:\s+couldn't vectorize loop|optimized: loop vectorized)")
PRAGMA = "#pragma GCC ivdep"


def main():
    root, compiler, source, *options = sys.argv[1:]
    root = Path(root)
    loops = {(path.resolve(), number + 1): {"missed": 0, "optimized": 0}
             for path in (root / "core/base/kernels").glob("*.h")
             for number, line in enumerate(path.read_text().splitlines(), 1) if line.strip() == PRAGMA}
    command = [compiler, f"-I{root}", *OPTIONS, *options, source]
    compiled = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if compiled.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{compiled.stderr}")
    for line in compiled.stderr.splitlines():
        note = NOTE.match(line)
        if note is None:
            continue
        loop = loops.get((Path(note["file"]).resolve(), int(note["line"])))
        if loop is not None:
            loop[note["kind"].split(":")[0]] += 1
    failures = [f"{path.relative_to(root.resolve())}:{line}: g++ vectorized {found['optimized']} instantiations, "
                f"and failed to vectorize {found['missed']}"
                for (path, line), found in loops.items() if found["missed"] or not found["optimized"]]
    if not loops:
        failures = [f"no loop is marked with {PRAGMA}"]
    print("\n".join(failures) or f"{len(loops)} loops are vectorized")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
