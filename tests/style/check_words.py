#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_words.py ROOT: checks that no file contains a forbidden word or the old name of an identifier (see WORDS).

The script searches the text files in FOLDERS, except files that git ignores and those in LEFT_OUT: recorded data, this
file, and docs/style.md, which lists forbidden words. It prints every line that matches a pattern of WORDS and none of
EXCEPTIONS.
"""
import re
import subprocess
import sys
from pathlib import Path

FOLDERS = (
    "core", "capi", "bindings", "docs", "examples", "benchmarks", "tests", "tools", "cmake", "README.md", "CONTRIBUTING.md",
)  # fmt: skip
LEFT_OUT = ("docs/style.md", "tests/golden/data", "tests/style/check_words.py")

# Patterns of forbidden words and of old names -> what to write instead.
WORDS = {
    r"[Tt]old\b|[Tt]ells|Tell[A-Z]|\btell\b|Told": "report, return, log, describe",
    r"[Ff]oretell|[Ff]oretold": "estimate, predict",
    r"[Dd]earest|\bdearer\b": "most expensive",
    r"[Ss]tood_?[Ss]till|[Ss]tands? ?[Ss]till|StandStill|standing_block": "skipped update, update_skipped",
    r"why_not|whyNot": "unavailable_reason",
    r"ToldReport|FindTold|TellOfLoss": "HostReport, ReportPriorFailure",
    r"\bJudge[A-Z]|Judgement|\bdoubts_": "Check..., needs_exact_check",
    r"RootsAhead|NoteAhead": "AsyncRoots, RecordPrefetch",
    r"ShapeClass|StepWave": "BlockBatch",
    r"[Tt]hin_?[Ff]actors": "rank-deficient factors",
    r"cuda_double|CudaDouble": "cuda_fake",
    r"factor_keep|factor_add|moment_keep|moment_add": "factor_decay, factor_weight, moment_decay, moment_weight",
    r"SHAMPOO_U8": "nothing: there is no such constant",
}
# A line that matches one of these patterns is not checked. The patterns match words from outside this project.
EXCEPTIONS = (
    r"ftell",  # the function of the C library
)


def main() -> None:
    """Print the lines that match. Exit with status 1 if there are any, otherwise with 0."""
    root = Path(sys.argv[1])
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout.splitlines()
    anything = re.compile("|".join(WORDS))
    exception = re.compile("|".join(EXCEPTIONS))
    problems = 0
    for name in listed:
        path = root / name
        if name.startswith(LEFT_OUT) or not path.is_file():
            continue
        content = path.read_bytes()
        if b"\0" in content:
            continue
        lines = [name, *content.decode("utf-8", "replace").splitlines()]
        for number, line in enumerate(lines):
            if not anything.search(line) or exception.search(line):
                continue
            instead = next(text for pattern, text in WORDS.items() if re.search(pattern, line))
            print(f"{name}:{number}: {line.strip()[:120]}\n    write instead: {instead}")
            problems += 1
    print(f"{len(listed)} files, {problems} problems")
    sys.exit(problems > 0)


if __name__ == "__main__":
    main()
