#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site from the pages of the repository, the public headers and the Python package.

A warning of Doxygen or Sphinx is an error. The packages of requirements.txt must be installed.
"""
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import reference  # noqa: E402
import staging  # noqa: E402

SITE = Path(__file__).resolve().parent
ROOT = SITE.parents[1]


def run_doxygen(doxygen: str, out: Path) -> bool:
    """Write the XML of the public headers into a folder, and return whether Doxygen succeeded."""
    settings = (SITE / "Doxyfile").read_text(encoding="utf-8")
    settings += f'OUTPUT_DIRECTORY = "{out}"\nXML_OUTPUT = xml\n'
    settings += f'FILTER_PATTERNS = "*.h=\\"{sys.executable}\\" \\"{SITE / "headers.py"}\\""\n'
    return subprocess.run([doxygen, "-"], input=settings, text=True, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Build the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder for the site; out/html/index.html is its first page")
    parser.add_argument("--doxygen", default="doxygen", help="the program Doxygen, 1.9.4 or later")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    pages = out / "pages"
    # Delete the old output, so that pages that were removed from the repository do not remain.
    for folder in (pages, out / "xml", out / "html"):
        shutil.rmtree(folder, ignore_errors=True)
    (pages / "reference/c").mkdir(parents=True)

    if not run_doxygen(arguments.doxygen, out):
        return 1
    try:
        staging.Stage(ROOT, pages).fill()
    except staging.LinkError as error:
        print(error, file=sys.stderr)
        return 1
    gaps = reference.write_pages(out / "xml", ROOT / "capi/include/shampoo", pages / "reference/c")
    if gaps:
        print("\n".join(gaps), file=sys.stderr)
        return 1

    sphinx = [sys.executable, "-m", "sphinx", "--builder", "html", "--conf-dir", str(SITE), "--fresh-env", "--quiet",
              "--jobs", "2", "--nitpicky", "--fail-on-warning", "--keep-going", "--doctree-dir", str(out / "doctrees"),
              "--define", f"breathe_projects.libshampoo={out / 'xml'}", str(pages), str(out / "html")]  # fmt: skip
    done = subprocess.run(sphinx, check=False).returncode
    if done == 0:
        print(f"the site is {out / 'html/index.html'}")
    return done


if __name__ == "__main__":
    sys.exit(main())
