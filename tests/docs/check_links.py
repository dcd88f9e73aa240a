# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks the links between the Markdown files of the repository: linked files and #anchors must exist.

Links with a scheme (https:, mailto:) are not checked. The anchors of headings follow GitHub's rules.
"""
import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "site"))
from anchors import HEADING, Anchors, lines_with_code  # noqa: E402

# Names of folders that are not searched: generated folders and hidden folders.
SKIPPED = re.compile(r"build.*|install|out|\..*")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
# Begins at the bracket that ends the text of a link, because the text may contain an image, which also has brackets.
LINK = re.compile(r"\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+[\"'][^)]*)?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?([^\s>]+)")
EXPLICIT = re.compile(r"<a\s+(?:id|name)=[\"']([^\"']+)[\"']")
SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^//")


def pages(root):
    found = []
    for folder, folders, files in os.walk(root):
        # os.walk must not enter generated folders, because another test may delete their files at the same time.
        folders[:] = [name for name in folders if not SKIPPED.fullmatch(name)]
        found += [Path(folder, name) for name in files if name.endswith(".md")]
    return sorted(found)


def lines_outside_code(page):
    for number, line, is_code in lines_with_code(page.read_text(encoding="utf-8")):
        if not is_code:
            yield number, line


def anchors(page):
    names = Anchors()
    for _, line in lines_outside_code(page):
        names.names.update(EXPLICIT.findall(line))
        heading = HEADING.match(line)
        if heading:
            names.add(heading.group(2))
    return names.names


def links(page):
    for number, line in lines_outside_code(page):
        plain = CODE.sub("", line)
        for target in LINK.findall(plain) + DEFINITION.findall(plain):
            yield number, target


def problem(root, page, target, known):
    path, _, anchor = target.partition("#")
    goal = page if not path else (page.parent / unquote(path))
    if path.startswith("/"):
        return "an absolute path; use one relative to this file"
    goal = goal.resolve()
    if goal != root and root not in goal.parents:
        return "leads out of the repository"
    if not goal.exists():
        return "there is no such file"
    if anchor and goal.suffix == ".md":
        if goal not in known:
            known[goal] = anchors(goal)
        if unquote(anchor) not in known[goal]:
            return "there is no such anchor; the file has: " + ", ".join(sorted(known[goal]))
    return None


def main():
    root = Path(sys.argv[1]).resolve()
    known, count, failures = {}, 0, 0
    for page in pages(root):
        for number, target in links(page):
            if not target or SCHEME.match(target):
                continue
            count += 1
            why = problem(root, page, target, known)
            if why:
                failures += 1
                print(f"{page.relative_to(root)}:{number}: ({target}): {why}")
    print(f"{count} relative links, {failures} of them broken")
    # If no link was found, the search for links is broken.
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
