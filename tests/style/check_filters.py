#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_filters.py ROOT: checks that every filter of test cases in CMake files and scripts matches a test case.

The script reads only files in tests/. A filter is a pattern in the option --test-case or --test-case-exclude of
doctest, the framework of the C++ tests. A filter that contains a variable is not checked.
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
    cases, filters = doctest_cases(root), list(filters_of(root))
    failures = [f"{path.relative_to(root)}: no test case matches {pattern!r}" for path, pattern in filters
                if not any(fnmatch.fnmatchcase(case, pattern) for case in cases)]  # fmt: skip
    print(*failures, f"{len(filters)} filters, {len(failures)} without a test case", sep="\n")
    # Fail if no filter was found, because then the search is wrong.
    sys.exit(1 if failures or not filters else 0)


main()
