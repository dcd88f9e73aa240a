# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks the includes of the core against the table of folders in docs/architecture.md.

A file must not include files of folders that are above its own folder in the table. If the row of a folder says
"It includes only", files of this folder may include only each other and the files and folders that the row lists. The
script also checks that files of the core in different folders have different names. Finally, it checks that neither
the modules of the Python package nor those of the Rust crate libshampoo import each other in a cycle.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping

Graph = Mapping[str, set[str]]

SOURCES = (".h", ".cc", ".cu", ".cuh")


def layers(root: pathlib.Path) -> list[str]:
    """Return the folders of the core in the order of the table, the highest folder first."""
    table = root.joinpath("docs/architecture.md").read_text(encoding="utf-8")
    return re.findall(r"(?m)^\| `(core/[\w/]+)` \|", table)


def allowed_includes(root: pathlib.Path) -> dict[str, list[str]]:
    """Return the folders and files that a folder may include, for each folder whose row says "It includes only"."""
    table = root.joinpath("docs/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(core/[\w/]+)` \|.*\bIt includes only ((?:(?:, | and |, and )?`core/[^`]+`)+)", table)
    return {folder: re.findall(r"`([^`]+)`", names) for folder, names in rows}


def folder_of(path: str, order: list[str]) -> str:
    """Return the innermost folder that contains the file and has a row in the table. Return "" if there is none."""
    return max((folder for folder in order if path.startswith(f"{folder}/")), key=len, default="")


def sources(root: pathlib.Path) -> list[pathlib.Path]:
    """Return the source files of the core."""
    return sorted(path for path in (root / "core").rglob("*") if path.suffix in SOURCES)


def wrong_includes(root: pathlib.Path) -> Iterator[str]:
    """Yield a line for each include that the table does not allow."""
    order = layers(root)
    allowed = allowed_includes(root)
    for path in sources(root):
        name = str(path.relative_to(root))
        own = folder_of(name, order)
        for included in re.findall(r'(?m)^#include "(core/[^"]+)"', path.read_text(encoding="utf-8")):
            other = folder_of(included, order)
            if other not in ("", own) and (not own or order.index(other) < order.index(own)):
                why = f"which is not below {own}" if own else f"but the folder of {name} is missing"
                yield f"{name} includes {included}, {why} in docs/architecture.md"
            elif own in allowed and not {other, included} & {own, *allowed[own]}:
                yield f"{name} includes {included}; docs/architecture.md allows only {', '.join(allowed[own])}"


def repeated_names(root: pathlib.Path) -> Iterator[str]:
    """Yield a line for each file name, without its suffix, that occurs in several folders of the core."""
    folders = defaultdict(set)
    for path in sources(root):
        folders[path.stem].add(str(path.parent.relative_to(root)))
    for name, several in folders.items():
        if len(several) > 1:
            yield f"files with the name {name} are in {' and '.join(sorted(several))}; expected different names"


def python_imports(root: pathlib.Path) -> Graph:
    """Return the modules that each module of the package imports, also those that it imports only for type checkers."""
    folder = root / "bindings/python/libshampoo"
    names = {path.stem for path in folder.glob("*.py")}
    graph = {}
    for path in folder.glob("*.py"):
        found = re.findall(r"(?m)^\s*from \.(\w*) import ([^\n]+)", path.read_text(encoding="utf-8"))
        modules = [[module] if module else re.findall(r"\w+", what) for module, what in found]
        graph[path.stem] = {name for several in modules for name in several} & names
    return graph


def rust_imports(root: pathlib.Path) -> Graph:
    """Return the modules that each module of the crate uses."""
    folder = root / "bindings/rust/libshampoo/src"
    return {
        path.stem: set(re.findall(r"(?m)^use crate::(\w+)", path.read_text(encoding="utf-8"))) - {path.stem}
        for path in folder.glob("*.rs")
        if path.stem != "lib"
    }


def cycle_in(graph: Graph) -> list[str]:
    """Return the modules of a cycle, if there is one. Otherwise return an empty list."""
    done: set[str] = set()

    def visit(module: str, way: list[str]) -> list[str]:
        if module in way:
            return [*way[way.index(module) :], module]
        if module in done:
            return []
        for other in sorted(graph.get(module, ())):
            if found := visit(other, [*way, module]):
                return found
        done.add(module)
        return []

    for module in sorted(graph):
        if found := visit(module, []):
            return found
    return []


def main() -> int:
    """Print the problems. Return the exit status: 1 if there are problems, otherwise 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path)
    root = parser.parse_args().root
    problems = [*wrong_includes(root), *repeated_names(root)]
    for language, graph in (("Python", python_imports(root)), ("Rust", rust_imports(root))):
        if not any(graph.values()):
            problems.append(f"{language}: no imports were found; expected some")
        if cycle := cycle_in(graph):
            problems.append(f"{language}: modules import each other: {' -> '.join(cycle)}")
    if len(layers(root)) < 10:
        problems.append(f"docs/architecture.md lists {len(layers(root))} folders of the core; expected at least 10")
    if not allowed_includes(root):
        problems.append('docs/architecture.md has no row with "It includes only"; expected some')
    print("\n".join([*problems, f"{len(problems)} problems"]))
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main())
