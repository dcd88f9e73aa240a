#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_filters.py ROOT: checks that filters of test cases in CMake files and shell scripts match test cases.

A filter is a pattern in the option --test-case or --test-case-exclude of doctest, the framework of the C++ tests. Each
filter in tests/ must match at least one test case below the folder of its file. Filters that contain a variable are
not checked.
"""
import fnmatch
import re
import sys
from pathlib import Path

from doctest_cases import doctest_cases

FILTERS = re.compile(r"--test-case(?:-exclude)?=([^\"\n)]*)")
FILES = ("CMakeLists.txt", "*.cmake", "*.sh")


def filters_of(root):
    """Yield (file, pattern) for every filter that contains no variable."""
    for path in sorted(path for kind in FILES for path in root.glob(f"tests/**/{kind}")):
        for found in FILTERS.findall(path.read_text(encoding="utf-8")):
            yield from ((path, pattern) for pattern in found.split(",") if pattern.strip() and "$" not in pattern)


def main():
    root = Path(sys.argv[1])
    filters = list(filters_of(root))
    cases = {folder: doctest_cases(folder) for folder in {path.parent for path, _ in filters}}
    failures = [f"{path.relative_to(root)}: no test case matches {pattern!r}" for path, pattern in filters
                if not any(fnmatch.fnmatchcase(case, pattern) for case in cases[path.parent])]  # fmt: skip
    print(*failures, f"{len(filters)} filters, {len(failures)} without a test case", sep="\n")
    # Fail if no filter was found, because then the search is wrong.
    sys.exit(1 if failures or not filters else 0)


main()
