#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_filters.py ROOT: checks that every filter of test cases in CMake files and scripts matches a test case.

A filter is a pattern of --test-case or --test-case-exclude, the options of doctest. Filters with variables are not
checked.
"""
import fnmatch
import re
import subprocess
import sys
from pathlib import Path

FILTERS = re.compile(r"--test-case(?:-exclude)?=([^\"\n)]*)")
CASE = re.compile(r'TEST_CASE(?:_TEMPLATE)?\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)')
LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"')


def main():
    root = Path(sys.argv[1])
    names, filters = [], []
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "tests"],
                            cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout  # fmt: skip
    for path in sorted(set(listed.split())):
        file = root / path
        if file.suffix in (".cc", ".h") and file.is_file():
            names += ["".join(LITERAL.findall(case)) for case in CASE.findall(file.read_text(encoding="utf-8"))]
        elif file.suffix in (".txt", ".cmake", ".sh") and file.is_file():
            for found in FILTERS.findall(file.read_text(encoding="utf-8")):
                filters += [(path, one) for one in found.split(",") if one.strip() and "$" not in one]
    failures = [f"{path}: no test case matches {pattern!r}" for path, pattern in filters
                if not any(fnmatch.fnmatchcase(name, pattern) for name in names)]  # fmt: skip
    print("\n".join(failures + [f"{len(filters)} filters, {len(failures)} without a test case"]))
    # Without any filter or name the search itself is broken.
    return 1 if failures or not filters or not names else 0


if __name__ == "__main__":
    sys.exit(main())
