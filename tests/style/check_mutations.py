#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_mutations.py ROOT CTEST BUILD: checks that every patch in tests/mutations applies and names an existing test.

Each patch adds an error to the sources. tests/mutations/run.sh applies each patch, and checks that the test in its line
"test:" then fails. This takes too long for `bash tests/run.sh`, which runs this script instead. If the build lacks a
group of tests, such as python or cuda, the script accepts all names of tests in this group. It checks names of test
cases only for patches in the folders core and cuda, because the test cases of these patches use doctest, the framework
of the C++ tests.
"""
import re
import subprocess
import sys
from pathlib import Path

from doctest_cases import doctest_cases

HEADER = re.compile(r"change: \S.*\ntest: (?P<test>\S+)\n(case: (?P<case>\S.*)\n)?\n--- a/")
DOCTEST_AREAS = ("core", "cuda")


def is_test(root, tests, pattern):
    if any(re.fullmatch(pattern, name) for name in tests):
        return True
    kind, _, suite = pattern.partition(".")
    is_built = any(name.startswith(f"{kind}.") for name in tests)
    if not is_built or (root / f"tests/{kind}/test_{suite}.py").exists():
        return True
    # CMakeLists.txt names the test, but does not add the test if a program or a package is missing.
    lists = root / f"tests/{kind}/CMakeLists.txt"
    return lists.exists() and f"NAME {pattern}\n" in lists.read_text(encoding="utf-8")


def problems_of(root, tests, cases, patch):
    header = HEADER.match(patch.read_text(encoding="utf-8"))
    if header is None:
        yield 'expected the lines "change:", "test:" and optionally "case:", an empty line, and the patch'
    elif not is_test(root, tests, header["test"]):
        yield f"there is no test {header['test']}"
    elif header["case"] and patch.parent.name in DOCTEST_AREAS and header["case"] not in cases:
        yield f'there is no test case "{header["case"]}"'
    done = subprocess.run(["git", "-C", root, "apply", "--check", patch], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield f"it does not apply; adapt it to the sources: {done.stderr.strip()}"


def main():
    root, ctest, build = Path(sys.argv[1]), *sys.argv[2:]
    listed = subprocess.run([ctest, "--test-dir", build, "-N"], capture_output=True, text=True, check=True).stdout
    tests = re.findall(r"Test +#\d+: (\S+)", listed)
    patches = sorted(root.glob("tests/mutations/*/*.patch"))
    cases = doctest_cases(root / "tests")
    found = [
        f"{path.relative_to(root)}: {problem}" for path in patches for problem in problems_of(root, tests, cases, path)
    ]
    print(*found, f"{len(patches)} patches, {len(found)} problems", sep="\n")
    sys.exit(1 if found or not patches else 0)


main()
