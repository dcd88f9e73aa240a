# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_site.py BUILD DOXYGEN OUT: builds the site of the documentation, and checks its links and its navigation.

BUILD is the path of docs/site/build.py, which fails if Doxygen or Sphinx prints a warning. DOXYGEN is the path of
Doxygen, and OUT is the folder for the site. Every link within the site must lead to a file and an anchor that exist.
The navigation of the home page must contain every page of docs/ and docs/adr/, and every README.md of examples/. No
page may load a file from another site. The search index must contain each word of the list in missing_words().
"""
import html.parser
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

#: HTML elements without an end tag.
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(html.parser.HTMLParser):
    """An HTML page: its links, the files that it loads, the names of its anchors, and the links of its navigation."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.loaded, self.names, self.navigation = [], [], set(), []
        self._depth = 0  # number of open elements in the navigation, including the navigation itself
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.names.update(values[key] for key in ("id", "name") if values.get(key))
        links = [values[key] for key in ("href", "src") if values.get(key)]
        self.targets += links
        if tag != "a":
            self.loaded += links
        if self._depth:
            self.navigation += links
            self._depth += tag not in VOID
        elif "sidebar-tree" in (values.get("class") or "").split():
            self._depth = 1

    def handle_endtag(self, tag):
        if self._depth and tag not in VOID:
            self._depth -= 1


def resolve(path, file):
    return Path(os.path.normpath(path.parent / unquote(file))) if file else path


def broken_links(site, pages):
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.targets:
            file, _, anchor = target.partition("#")
            if ":" in file or file.startswith("//"):
                continue
            goal = resolve(path, file.partition("?")[0])
            if not goal.exists():
                yield f"{name}: {target}: there is no such file"
            elif anchor and goal in pages and unquote(anchor) not in pages[goal].names:
                yield f"{name}: {target}: there is no such anchor"
        for target in page.loaded:
            if target.startswith(("http:", "https:", "//")):
                yield f"{name}: {target}: is loaded from another site; the site must work without a network"


def missing_pages(root, site, pages):
    home = site / "index.html"
    found = {resolve(home, target.partition("#")[0]) for target in pages[home].navigation}
    patterns = ("docs/*.md", "docs/adr/*.md", "examples/**/README.md")
    wanted = [path for pattern in patterns for path in root.glob(pattern)]
    for path in sorted(wanted):
        name = path.relative_to(root)
        if "build" not in name.parts and site / name.with_suffix(".html") not in found:
            yield f"{name}: is not in the navigation; add it to docs/site/navigation.md"
    # The pages of the API reference are generated, so only their number is checked.
    reference = [path for path in found if path.is_relative_to(site / "reference")]
    if len(wanted) < 40 or len(reference) < 15:
        yield f"{len(wanted)} Markdown files and {len(reference)} links to the reference; expected at least 40 and 15"


def missing_words(site):
    index = site / "searchindex.js"
    words = index.read_text(encoding="utf-8") if index.exists() else ""
    for word in ("shampoo_optimizer_step", "libshampoo.Optimizer", "checkpoint"):
        if word not in words:
            yield f"{index.name}: {word} is not in the search index"


def main():
    build, doxygen, out = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3]).resolve()
    done = subprocess.run([sys.executable, str(build), "--doxygen", doxygen, str(out)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    if done.returncode:
        print(done.stdout)
        return 1
    site, root = out / "html", build.parents[2]
    pages = {path: Page(path) for path in site.rglob("*.html")}
    failures = [*broken_links(site, pages), *missing_pages(root, site, pages), *missing_words(site)]
    print("\n".join(failures) if failures else f"{len(pages)} pages without a warning or a broken link")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
