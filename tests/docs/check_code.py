# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compiles every fenced block of C code in the documentation, and runs the blocks that are programs.

A block that contains "int main" is built against the library and must exit with status 0. Other blocks are fragments.
A fragment becomes the body of a function in a file that includes prologue.h. The compiler checks this file but does not
link it. Messages of the compiler contain the file and the line in the documentation.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
# A fragment may declare a variable that only a later fragment of the page uses.
LENIENT = ["-Wno-unused-variable", "-Wno-unused-but-set-variable"]
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(\S*)")


def pages(root):
    yield root / "README.md"
    yield root / "CONTRIBUTING.md"
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted((root / "examples").rglob("README.md"))
    yield root / "benchmarks" / "README.md"


def blocks(page):
    """Yields (number of the first line, language, lines) for each fenced block of the page."""
    fence, language, first, lines = None, "", 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = FENCE.match(line)
        if fence is None:
            if found:
                fence, language, first, lines = found.group(2), found.group(3), number + 1, []
        elif found and found.group(2).startswith(fence) and not found.group(3):
            yield first, language, lines
            fence = None
        else:
            lines.append(line)
    if fence is not None:
        raise SystemExit(f"{page}:{first - 1}: this block of code has no end")


def run(command, **options):
    """Runs a command. Returns its output if it failed, otherwise None."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, **options)
    except subprocess.TimeoutExpired:
        return "still running after 120 seconds"
    if done.returncode == 0:
        return None
    return done.stdout.decode("utf-8", "replace") + f"exit status {done.returncode}"


def fragment_source(page, first, lines):
    """Returns a C file with the fragment in a function. Each #include moves to the top; an empty line replaces it."""
    include = re.compile(r"\s*#\s*include\b")
    head = [line for line in lines if include.match(line)]
    body = ["" if include.match(line) else line for line in lines]
    return "\n".join(['#include "prologue.h"', *head, "int Fragment(void) {", f'#line {first} "{page}"', *body,
                      "return 0;", "}", ""])


def check(arguments, folder, page, first, lines):
    name = page.relative_to(arguments.root)
    source = Path(folder) / "block.c"
    text = "\n".join(lines) + "\n"
    if "int main" not in text:
        source.write_text(fragment_source(name, first, lines), encoding="utf-8")
        others = [option for folder in arguments.system_include for option in ("-isystem", folder)]
        return run([arguments.compiler, *STRICT, *LENIENT, "-fsyntax-only", f"-I{Path(__file__).resolve().parent}",
                    f"-I{arguments.include}", *others, source])
    source.write_text(f'#line {first} "{name}"\n{text}', encoding="utf-8")
    program = Path(folder) / "block"
    library = arguments.library.resolve()
    failure = run([arguments.compiler, *STRICT, f"-I{arguments.include}", source, "-o", program, library,
                   f"-Wl,-rpath,{library.parent}", "-lm"])
    return failure or run([program], cwd=folder, stdin=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="root of the repository")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", type=Path, required=True, help="folder that contains shampoo/shampoo.h")
    parser.add_argument("--system-include", action="append", default=[],
                        help="folder with a header that fragments include, such as mpi.h; may be repeated")
    parser.add_argument("--library", type=Path, required=True, help="libshampoo.so")
    arguments = parser.parse_args()
    arguments.root = arguments.root.resolve()
    os.environ["LC_ALL"] = "C"

    programs = fragments = failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for page in pages(arguments.root):
            for first, language, lines in blocks(page):
                if language.lower() != "c":
                    continue
                if any("int main" in line for line in lines):
                    programs += 1
                else:
                    fragments += 1
                failure = check(arguments, folder, page, first, lines)
                if failure:
                    failures += 1
                    print(f"{page.relative_to(arguments.root)}:{first}: this block of C fails:\n{failure}\n")
    print(f"{programs} programs and {fragments} fragments, of which {failures} fail")
    # If no program or no fragment was found, the search for blocks is broken.
    return 1 if failures or not programs or not fragments else 0


if __name__ == "__main__":
    sys.exit(main())
