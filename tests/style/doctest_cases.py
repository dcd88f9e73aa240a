# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds the names of the test cases in the sources, for checks of patches and scripts that name test cases."""
import re


def doctest_cases(root):
    """Return the names of all test cases. A name can consist of several literals."""
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(root.glob("tests/**/*.cc")))
    literals = re.findall(r'TEST_CASE(?:_TEMPLATE)?\(\s*("(?:[^"\\]|\\.|"\s*")*")', sources)
    return {re.sub(r'"\s*"', "", literal)[1:-1] for literal in literals}
