# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks the links between the Markdown files of the repository: files and #anchors that they name must exist.

Links with a scheme (https:, mailto:) are not followed. Anchors are formed from headings as GitHub forms them.
"""
import re
import sys
from pathlib import Path
from urllib.parse import unquote

# Generated trees; they are ignored by git, too.
SKIPPED = re.compile(r"build.*|install|out|\..*")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
# The text of a link may contain an image, whose brackets are one level deeper.
LINK = re.compile(r"\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*)>?(?:\s+[\"'][^)]*)?\s*\)")
DEFINITION = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?([^\s>]+)")
HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.*?)\s*#*\s*$")
EXPLICIT = re.compile(r"<a\s+(?:id|name)=[\"']([^\"']+)[\"']")
SCHEME = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*:|^//")


def pages(root):
    for page in sorted(root.rglob("*.md")):
        if not any(SKIPPED.fullmatch(part) for part in page.relative_to(root).parts[:-1]):
            yield page


def lines_outside_code(page):
    fence = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = FENCE.match(line)
        if fence is None and not found:
            yield number, line
        elif fence is None:
            fence = found.group(1)
        elif found and found.group(1).startswith(fence):
            fence = None


def slug(heading):
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.lower())
    return text.replace(" ", "-")


def anchors(page):
    names = set()
    for _, line in lines_outside_code(page):
        names.update(EXPLICIT.findall(line))
        heading = HEADING.match(line)
        if heading:
            base = name = slug(heading.group(1))
            repeat = 0
            while name in names:
                repeat += 1
                name = f"{base}-{repeat}"
            names.add(name)
    return names


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
            return "there is no such heading; there are: " + ", ".join(sorted(known[goal]))
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
    # Without any link the search itself is broken.
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
