# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_snippets.py ROOT: checks programs and dependencies that the documentation shows.

A Rust or Java program in README.md must also be in the guide of its language, because a test runs the programs of the
guide. A toml or xml block of any page must show a dependency on the library. In a toml block, each dependency must have
the path of a crate of this repository and the name that is in the crate's Cargo.toml. In an xml block, groupId,
artifactId and version must equal those in bindings/java/pom.xml. run_shell.py checks the CMake blocks.
"""
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from check_code import blocks, pages

try:
    import tomllib
except ImportError:
    print("skipped: needs Python 3.11 or later")
    sys.exit(77)

SOMEWHERE = "/where/libshampoo/is/"
POM = "bindings/java/pom.xml"
COORDINATES = ("groupId", "artifactId", "version")


def problems_of_toml(root, text):
    dependencies = tomllib.loads(text).get("dependencies", {})
    if not dependencies:
        yield "the block names no dependency"
    for name, what in dependencies.items():
        path = what.get("path", "") if isinstance(what, dict) else ""
        manifest = root / path[len(SOMEWHERE):] / "Cargo.toml"
        if not path.startswith(SOMEWHERE) or not manifest.exists():
            yield f"{name}: expected the path of a crate, {SOMEWHERE}..., not {path or what}"
        elif tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]["name"] != name:
            yield f"{name}: the crate in {path} has another name"


def coordinates(element, namespace=""):
    return {name: element.findtext(namespace + name) for name in COORDINATES}


def problems_of_xml(root, text):
    pom = ElementTree.parse(root / POM).getroot()
    expected = coordinates(pom, pom.tag[:-len("project")])
    found = coordinates(ElementTree.fromstring(text))
    yield from (f"{name} is {found[name]}: expected {expected[name]}, as in {POM}" for name in COORDINATES if found[name] != expected[name])


KINDS = {"toml": (problems_of_toml, tomllib.TOMLDecodeError), "xml": (problems_of_xml, ElementTree.ParseError)}


def problems_of(root, language, text):
    check, broken = KINDS[language]
    try:
        yield from check(root, text)
    except broken as error:
        yield f"the block is not valid {language}: {error}"


def programs_not_in_their_guides(root):
    for first, language, lines in blocks(root / "README.md"):
        guide = f"docs/{language}.md"
        if language in ("java", "rust") and lines not in [found for _, _, found in blocks(root / guide)]:
            yield f"README.md:{first}: this program is not in {guide}, whose programs are tested"


def main():
    root = Path(sys.argv[1]).resolve()
    counts, failures = dict.fromkeys(KINDS, 0), []
    for page in pages(root):
        for first, language, lines in blocks(page):
            if language in KINDS:
                counts[language] += 1
                failures += [f"{page.relative_to(root)}:{first}: {why}" for why in problems_of(root, language, "\n".join(lines))]
    failures += programs_not_in_their_guides(root)
    # The documentation has blocks of both languages. If no block of a language is found, the search is broken.
    failures += [f"no block of {language} was found" for language, count in counts.items() if not count]
    print("\n".join(failures + [f"{sum(counts.values())} blocks of {' and '.join(KINDS)}, {len(failures)} problems"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
