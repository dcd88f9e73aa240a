#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes tables and pictures from the JSON of the benchmarks, and writes them into sections of pages.

    python3 benchmarks/report.py            makes all tables and pictures in benchmarks/results
    python3 benchmarks/report.py --fill     also fills the sections of benchmarks/README.md and docs/comparison.md
    python3 benchmarks/report.py --check    exits with status 1 if a table, a picture or a page is not up to date

A section of a page begins with a comment such as "BENCHMARK cost" and ends with a comment "END BENCHMARK". The section
has the table and the pictures of one part of the benchmarks, here of the part cost.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pictures
import tables
from machine import ROOT

RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "docs" / "comparison.md", ROOT / "benchmarks" / "README.md")
SECTION = re.compile(r"(<!-- BENCHMARK (\w+) -->\n)(.*?)(<!-- END BENCHMARK -->)", re.DOTALL)


def read(results: Path) -> dict[str, dict[str, Any]]:
    """Return the results of all parts that were measured."""
    paths = {name: results / f"{name}.json" for name in tables.TABLES}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def write(results: Path, part: str, folder: Path | None = None) -> None:
    """Write the table and the picture of a part into the folder, by default into the folder of the results."""
    folder = folder or results
    found = read(results)
    (folder / f"{part}.md").write_text(tables.TABLES[part](found[part], found) + "\n", encoding="utf-8")
    if part in pictures.PICTURES:
        pictures.PICTURES[part](found[part], found, folder / f"{part}.svg")


def write_all(results: Path, folder: Path) -> list[str]:
    """Write all tables and pictures. Return the names of the parts."""
    found = list(read(results))
    for part in found:
        write(results, part, folder)
    return found


def content_of(part: str, results: Path, folder: Path) -> str:
    """Return the table and the pictures of a part. `folder` is the folder of the page that will show them."""
    path, command = results / f"{part}.md", f"`bash benchmarks/run.sh {part}`"
    if not path.exists():
        return f"Not measured yet: {command} makes this table.\n"
    text = path.read_text(encoding="utf-8")
    for picture in sorted(results.glob(f"{part}*.svg")):
        where = os.path.relpath(picture, folder)
        text += f"\n![{picture.stem.replace('_', ' ')}]({where})\n\n({command} draws `{picture.name}`.)\n"
    return text


def filled(text: str, results: Path, folder: Path) -> str:
    """Return the text of a page, with tables and pictures in its sections. `folder` is the folder of the page."""

    def section(match: re.Match[str]) -> str:
        part = match.group(2)
        if part not in tables.TABLES:
            raise SystemExit(f"unknown section BENCHMARK {part}; expected one of: {', '.join(tables.TABLES)}")
        return f"{match.group(1)}{content_of(part, results, folder)}{match.group(4)}"

    return SECTION.sub(section, text)


def outdated(results: Path) -> list[Path]:
    """Return the tables, pictures and pages that are not up to date."""
    with tempfile.TemporaryDirectory() as folder:
        write_all(results, Path(folder))
        made = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    found = [results / name for name, content in made.items()
             if not (results / name).exists() or (results / name).read_bytes() != content]  # fmt: skip
    pages = [(page, page.read_text(encoding="utf-8")) for page in PAGES if page.exists()]
    return found + [page for page, text in pages if filled(text, results, page.parent) != text]


def main() -> int:
    """Make or check the reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fill", action="store_true", help="write tables and pictures into the pages")
    parser.add_argument("--check", action="store_true", help="only check that all files are up to date")
    options = parser.parse_args()
    if options.check:
        found = outdated(RESULTS)
        for path in found:
            print(f"{path.relative_to(ROOT)} is not up to date: run python3 benchmarks/report.py --fill")
        return min(1, len(found))
    print("made: " + ", ".join(write_all(RESULTS, RESULTS)))
    for page in PAGES if options.fill else ():
        page.write_text(filled(page.read_text(encoding="utf-8"), RESULTS, page.parent), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
