# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Copies the pages of the repository into the folder that Sphinx reads, and rewrites their links for the site.

The site has the same folders as the repository, so relative links between pages stay valid. README.md becomes index.md,
the home page. A link to a public header becomes a link to the C reference. Images are copied. A link to any other file
becomes a link to a page that shows the file.
"""
from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from anchors import lines_with_code

#: Patterns of the pages, relative to the root of the repository.
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "docs/adr/*.md", "examples/**/*.md", "benchmarks/README.md")
#: Folder of the pages that only the site has. Its content is copied to the root of the site.
SITE_PAGES = Path("docs/site/pages")
IMAGES = (".svg", ".png")

_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"(?P<head>\]\(|^\[[^\]\n]+\]:[ ]*)(?P<target>[^()\s]+)", re.MULTILINE)
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:")
_LANGUAGES = {".c": "c", ".h": "c", ".cc": "cpp", ".py": "python", ".java": "java", ".rs": "rust", ".sh": "bash"}


class LinkError(Exception):
    """Raised for a link to a file that the site cannot show."""


def page_paths(root: Path) -> list[Path]:
    """Return the paths of the pages, relative to the root of the repository."""
    found = [path.relative_to(root) for pattern in PAGES for path in sorted(root.glob(pattern))]
    return [path for path in found if "build" not in path.parts]


class Stage:
    """Fills the folder that Sphinx reads."""

    def __init__(self, root: Path, out: Path) -> None:
        self._root, self._out = root, out
        self._pages = set(page_paths(root))
        self._sources: set[Path] = set()

    def fill(self) -> None:
        """Copy all pages, create pages for the files that they link to, and copy the pages that only the site has."""
        for path in sorted((self._root / SITE_PAGES).rglob("*.*")):
            page, text = path.relative_to(self._root), path.read_text(encoding="utf-8")
            self._write(self._staged(page), self._rewrite(page, text) if path.suffix == ".md" else text)
        for page in sorted(self._pages):
            text = self._rewrite(page, (self._root / page).read_text(encoding="utf-8"))
            if page == Path("README.md"):
                text += "\n" + (self._root / "docs/site/navigation.md").read_text(encoding="utf-8")
            elif page.name == "README.md":
                text += self._toctree(":hidden:", *self._children(page))
            self._write(self._staged(page), text)
        for source in sorted(self._sources):
            self._write(self._source_page(source), self._show(source))
        index = (self._out / "sources/index.md").read_text(encoding="utf-8")
        entries = (f"{source} </{self._source_page(source).with_suffix('')}>" for source in sorted(self._sources))
        self._write(Path("sources/index.md"), index + self._toctree("", *entries))

    def _children(self, page: Path) -> list[str]:
        """Return the README files whose nearest README in a folder above them is this page."""
        found = []
        for other in sorted(self._pages):
            ancestors = (folder / "README.md" for folder in other.parent.parents)
            if other.name == "README.md" and next((path for path in ancestors if path in self._pages), None) == page:
                found.append(f"/{other.with_suffix('')}")
        return found

    @staticmethod
    def _toctree(option: str, *entries: str) -> str:
        return "\n".join(["", "```{toctree}", ":titlesonly:", option, "", *entries, "```", ""]) if entries else ""

    def _write(self, path: Path, text: str) -> None:
        goal = self._out / path
        goal.parent.mkdir(parents=True, exist_ok=True)
        goal.write_text(text, encoding="utf-8")

    @staticmethod
    def _staged(page: Path) -> Path:
        if page.is_relative_to(SITE_PAGES):
            return page.relative_to(SITE_PAGES)
        return Path("index.md") if page == Path("README.md") else page

    @staticmethod
    def _source_page(source: Path) -> Path:
        return Path("sources") / source.parent / f"{source.name}.md"

    def _show(self, source: Path) -> str:
        """Return a page that shows a file. The search skips such pages, because they would rank above the guides."""
        text = (self._root / source).read_text(encoding="utf-8")
        language = _LANGUAGES.get(source.suffix, "text")
        return f"---\nnosearch: true\n---\n# {source.name}\n\n`{source}`\n\n``````{language}\n{text}``````\n"

    def _rewrite(self, page: Path, text: str) -> str:
        """Rewrite the links of a page, except in code. Lines keep their numbers, which messages of Sphinx contain."""
        chunks: list[tuple[bool, list[str]]] = []
        for _, line, is_code in lines_with_code(text):
            if not chunks or chunks[-1][0] != is_code:
                chunks.append((is_code, []))
            chunks[-1][1].append(line)
        return "".join(
            "".join(f"{line}\n" for line in lines) if is_code else self._rewrite_prose(page, "\n".join(lines) + "\n")
            for is_code, lines in chunks
        )

    def _rewrite_prose(self, page: Path, text: str) -> str:
        codes: list[str] = []

        def hide(match: re.Match[str]) -> str:
            codes.append(match.group(0))
            return f"\0{len(codes) - 1}\0"

        text = _LINK.sub(lambda match: match["head"] + self._target(page, match["target"]), _CODE.sub(hide, text))
        return re.sub("\0(\\d+)\0", lambda match: codes[int(match.group(1))], text)

    def _target(self, page: Path, target: str) -> str:
        path, mark, anchor = target.partition("#")
        if _SCHEME.match(target) or not path:
            return target
        goal = Path(os.path.normpath(page.parent / path))
        if (self._root / goal / "README.md").is_file():
            goal /= "README.md"
        staged = self._goal(page, goal)
        return Path(os.path.relpath(staged, self._staged(page).parent)).as_posix() + mark + anchor

    def _goal(self, page: Path, goal: Path) -> Path:
        if goal in self._pages:
            return self._staged(goal)
        if goal == Path("docs/adr"):
            return Path("decisions.md")
        if goal.parent == Path("capi/include/shampoo"):
            return Path("reference/c") / f"{goal.stem}.rst"
        if not (self._root / goal).is_file() or goal.suffix == ".md":
            raise LinkError(f"{page}: link to {goal}: expected a page of the site or a file of the repository")
        if goal.suffix in IMAGES:
            (self._out / goal).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._root / goal, self._out / goal)
            return goal
        self._sources.add(goal)
        return self._source_page(goal)
