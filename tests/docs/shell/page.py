# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Splits the shell blocks of a Markdown page into commands.

A command consists of the fewest lines that Bash can parse.
"""
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from check_code import blocks, pages  # noqa: E402


class Command(NamedTuple):
    line: int  # number of its first line in the page
    text: str


def has_shell(page: Path) -> bool:
    return any(language in ("sh", "bash") for _, language, _ in blocks(page))


def shell_pages(root: Path) -> list[str]:
    return [str(page.relative_to(root)) for page in pages(root) if has_shell(page)]


def is_whole(text: str) -> bool:
    if text.rstrip("\n").endswith("\\"):
        return False
    return subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False).returncode == 0


def commands(page: Path) -> Iterator[Command]:
    for first, language, lines in blocks(page):
        if language == "cmake":
            yield from project_around(first, "\n".join(lines))
        if language not in ("sh", "bash"):
            continue
        text, begin = "", first
        for number, line in enumerate(lines, first):
            text += line + "\n"
            if is_whole(text):
                if text.strip():
                    yield Command(begin, text.strip())
                text, begin = "", number + 1
        if text:
            raise SystemExit(f"{page}:{begin}: Bash cannot parse this block to its end")


def project_around(line: int, text: str) -> Iterator[Command]:
    """Yields commands that build and run a C project. Its CMakeLists.txt ends with `text`, a block of the page."""
    (target,) = set(re.findall(r"target_link_libraries\((\w+)", text))
    head = f"cmake_minimum_required(VERSION 3.16)\nproject({target} C)\nadd_executable({target} {target}.c)\n"
    yield Command(line, f"mkdir -p project && cp {target}.c project && cat >project/CMakeLists.txt <<'END'\n{head}{text}\nEND")
    yield Command(line, f"cmake -S project -B project/build && cmake --build project/build && project/build/{target}")


def first_program(page: Path) -> str:
    return next("\n".join(lines) + "\n" for _, language, lines in blocks(page) if language == "c" and any("int main" in line for line in lines))
