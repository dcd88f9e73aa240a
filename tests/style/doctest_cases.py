# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds the names of all doctest cases in the C++ tests, for check_filters.py and check_mutations.py."""
import re


def doctest_cases(folder):
    """Return the names of the test cases in a folder and its subfolders.

    A name can be split into several adjacent string literals.
    """
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("**/*.cc")))
    literals = re.findall(r'TEST_CASE(?:_TEMPLATE)?\(\s*("(?:[^"\\]|\\.|"\s*")*")', sources)
    return {re.sub(r'"\s*"', "", literal)[1:-1] for literal in literals}
