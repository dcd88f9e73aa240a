# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes the C reference: a page for each public header, and a page for each section of a header."""
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from headers import Section, file_page, sections

HEADERS = ("shampoo", "api", "shampoo_mpi", "shampoo_nccl")
#: The directive of Breathe for each kind of item in the XML of Doxygen.
_DIRECTIVES = {
    "define": "doxygendefine", "typedef": "doxygentypedef", "function": "doxygenfunction", "struct": "doxygenstruct",
    "enum": "doxygenenum", "variable": "doxygenvariable",
}  # fmt: skip


class Item(NamedTuple):
    """A documented item of a header: its kind in Doxygen, its name, and its line."""

    kind: str
    name: str
    line: int


def _line(element: ElementTree.Element) -> int:
    location = element.find("location")
    assert location is not None
    return int(location.get("line", "0"))


def _name(element: ElementTree.Element) -> str:
    return element.findtext("name") or element.findtext("compoundname") or ""


def _is_documented(element: ElementTree.Element) -> bool:
    texts = (text for tag in ("briefdescription", "detaileddescription") for text in element.iterfind(tag))
    return any("".join(text.itertext()).strip() for text in texts)


class Header:
    """A public header in the XML of Doxygen."""

    def __init__(self, xml: Path, path: Path) -> None:
        self.path = path
        self._xml = xml
        #: The name by which Doxygen links to the header.
        self.label = path.stem.replace("_", "__") + "_8h"
        root = ElementTree.parse(xml / f"{self.label}.xml").getroot().find("compounddef")
        assert root is not None
        self._root = root

    @property
    def members(self) -> list[ElementTree.Element]:
        """All items except structs and static functions. Only internal functions are static (see headers.py)."""
        return [member for member in self._root.iter("memberdef") if member.get("static") != "yes"]

    def items(self) -> list[Item]:
        """Return the items in the order of the header."""
        found = []
        for member in self.members:
            if _is_documented(member):
                found.append(Item(member.get("kind", ""), _name(member), _line(member)))
        for inner in self._root.iter("innerclass"):
            compound = ElementTree.parse(self._xml / f"{inner.get('refid')}.xml").getroot().find("compounddef")
            assert compound is not None
            found.append(Item("struct", _name(compound), _line(compound)))
        return sorted(found, key=lambda item: item.line)

    def gaps(self) -> Iterator[str]:
        """Yield a message for each undocumented argument, result or enumeration value. Skip undocumented functions."""
        for member in self.members:
            for value in member.iter("enumvalue"):
                if not _is_documented(value):
                    yield f"{self.path}:{_line(member)}: {_name(value)} has no documentation"
            if member.get("kind") != "function" or not _is_documented(member):
                continue
            where = f"{self.path}:{_line(member)}: {_name(member)}"
            described = {name.text for name in member.iterfind(".//parameterlist[@kind='param']//parametername")}
            for name in member.iterfind("param/declname"):
                if name.text not in described:
                    yield f"{where}: the argument {name.text} has no @param"
            has_result = member.find(".//simplesect[@kind='return']") is not None
            has_result |= member.find(".//parameterlist[@kind='retval']") is not None
            if (member.findtext("type") or "").strip() != "void" and not has_result:
                yield f"{where}: the result has no @return or @retval"


def tidy(xml: Path) -> None:
    """Change the XML so that Breathe shows it well.

    Each line of code becomes one XML element, because Breathe drops elements that contain only spaces. Each @since
    command, which names the version in which an item first appeared, becomes a sentence, because a list is longer.
    """
    for path in xml.glob("*.xml"):
        tree = ElementTree.parse(path)
        for text in tree.iter("detaileddescription"):
            for paragraph in list(text):
                for since in paragraph.findall("simplesect[@kind='since']"):
                    paragraph.remove(since)
                    ElementTree.SubElement(text, "para").text = f"Since {''.join(since.itertext()).strip()}."
        for line in tree.iter("codeline"):
            for space in line.iter("sp"):
                space.text = " "
            text = "".join(line.itertext())
            line[:] = []
            ElementTree.SubElement(line, "highlight", {"class": "normal"}).text = text
        tree.write(path, encoding="utf-8", xml_declaration=True)


def _directive(name: str, argument: str, *options: str) -> list[str]:
    return [f".. {name}:: {argument}", *(f"   :{option}:" for option in options), ""]


def _heading(text: str, underline: str) -> list[str]:
    return [text, underline * len(text), ""]


def _describe(items: list[Item]) -> list[str]:
    lines = []
    for item in items:
        lines += _directive(_DIRECTIVES[item.kind], item.name, *(["members"] if item.kind == "struct" else []))
    return lines


def _section_page(section: Section, items: list[Item]) -> list[str]:
    lines = _heading(f"C API: {section.title}", "=")
    if section.has_text:
        lines += _directive("doxygenpage", section.page, "content-only")
    return lines + _describe(items)


def write_pages(xml: Path, include: Path, out: Path) -> list[str]:
    """Write the pages of the C reference into a folder, and return messages about gaps in the documentation."""
    tidy(xml)
    gaps = []
    entries: list[tuple[str, str]] = []
    for stem in HEADERS:
        path = include / f"{stem}.h"
        header = Header(xml, path)
        gaps += header.gaps()
        found = sections(path)
        items = header.items()
        before = [item for item in items if not found or item.line < found[0].line]
        lines = [f".. _{header.label}:", "", *_heading(path.name, "=")]
        lines += _directive("doxygenpage", file_page(path), "content-only")
        lines += _describe(before)
        (out / f"{stem}.rst").write_text("\n".join(lines), encoding="utf-8")
        entries.append((path.name, stem))
        for number, section in enumerate(found):
            end = found[number + 1].line if number + 1 < len(found) else 1 << 30
            inside = [item for item in items if section.line <= item.line < end]
            name = section.page.removeprefix("section_")
            (out / f"{name}.rst").write_text("\n".join(_section_page(section, inside)), encoding="utf-8")
            entries.append((section.title, name))
    lines = [*_heading("C API", "="), ".. toctree::", "   :titlesonly:", ""]
    lines += [*(f"   {title} <{name}>" for title, name in entries), ""]
    (out / "index.rst").write_text("\n".join(lines), encoding="utf-8")
    return gaps
