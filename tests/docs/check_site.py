# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_site.py DOXYGEN DOXYFILE SITE: builds the site without warnings and checks every internal link.

A function, a field, a constant or an argument without documentation is also a warning.
"""
import html.parser
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote


class Page(html.parser.HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.targets, self.names = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.names.update(values[key] for key in ("id", "name") if values.get(key))
        self.targets += [values[key] for key in ("href", "src") if values.get(key)]


def broken(site):
    pages = {path: Page(path) for path in site.glob("*.html")}
    for path, page in pages.items():
        for target in page.targets:
            file, _, anchor = target.partition("#")
            if ":" in file or file.startswith("//"):
                continue
            goal = site / unquote(file) if file else path
            if not goal.exists():
                yield f"{path.name}: {target}: there is no such file"
            elif anchor and goal in pages and unquote(anchor) not in pages[goal].names:
                yield f"{path.name}: {target}: there is no such anchor"
    if len(pages) < 30:
        yield f"{len(pages)} pages: expected all guides and the API"


def main():
    doxygen, doxyfile, site = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    done = subprocess.run([doxygen, doxyfile], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    failures = done.stdout.splitlines() if done.returncode or done.stdout else []
    failures += broken(site)
    print("\n".join(failures) if failures else f"{len(list(site.glob('*.html')))} pages without a warning or a broken link")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
