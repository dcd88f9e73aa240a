#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Generates the declarations of libshampoo-sys from the public header.

    generate.py --header shampoo.h --out bindings.rs [--check]

Names and types come from the output of "swig -xml". The documentation of a name is the comment before it in the header.
With --check, the program does not write the file, and fails if the file is not up to date.
"""
from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

HEAD = """\
// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
//
// Made by bindings/rust/generate.py from shampoo.h, as SWIG reads it. Change the header, not this file.

use std::marker::{PhantomData, PhantomPinned};
use std::os::raw::{c_char, c_void};

/// Objects of the library are known by their addresses alone, which no thread may use unasked.
type Unmovable = PhantomData<(*mut u8, PhantomPinned)>;
"""
BASE = {
    "void": "c_void", "char": "c_char", "double": "f64", "size_t": "usize", "int32_t": "i32", "int64_t": "i64",
}  # fmt: skip
WIDTH = 120


@dataclass
class Declarations:
    """Declarations of the header in their order, with types in SWIG's notation."""

    constants: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    handles: list[str] = field(default_factory=list)
    structs: dict[str, dict[str, str]] = field(default_factory=dict)
    functions: dict[str, tuple[list[tuple[str, str]], str]] = field(default_factory=dict)


def attributes(node: ElementTree.Element) -> dict[str, str]:
    """Return the attributes of a node of SWIG's tree by name."""
    found = node.findall("attributelist/attribute")
    return {each.get("name", ""): each.get("value", "") for each in found}


def parameters(node: ElementTree.Element) -> list[tuple[str, str]]:
    """Return the names and types of a function's parameters."""
    parms = [attributes(parm) for parm in node.findall("attributelist/parmlist/parm")]
    return [(parm["name"], parm["type"]) for parm in parms if "name" in parm]


def read_header(header: Path) -> Declarations:
    """Read the declarations of the header with SWIG."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "shampoo.xml")
        subprocess.run(["swig", "-xml", "-module", "shampoo", "-o", str(out), str(header)], check=True)
        tree = ElementTree.parse(out).getroot()
    found = Declarations()
    top = next(each for each in tree.iter("include") if attributes(each)["name"].endswith(header.name))
    for node in top:
        about = attributes(node)
        if node.tag == "constant":
            found.constants[about["name"]] = about["value"]
        elif node.tag == "enum":
            for item in map(attributes, node.findall("enumitem")):
                found.constants[item["name"]] = item["enumvalue"]
        elif node.tag == "class":
            fields = [attributes(each) for each in node.findall("cdecl")]
            found.structs[about["name"]] = {each["name"]: each["decl"] + each["type"] for each in fields}
        elif node.tag == "cdecl" and about["kind"] == "function":
            found.functions[about["name"]] = (parameters(node), about["decl"] + about["type"])
        elif node.tag == "cdecl" and not about["type"].startswith("struct "):
            found.aliases[about["name"]] = about["decl"] + about["type"]
        elif node.tag == "cdecl" and about["name"] not in found.structs:
            found.handles.append(about["name"])
    return found


def split_arguments(text: str) -> list[str]:
    """Split a list of types at the commas that are not inside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part != "void"]


def function(swig: str, names: list[str]) -> str:
    """Convert a function type of SWIG, f(arguments).result, to (arguments) -> result."""
    depth, end = 0, 0
    for index, character in enumerate(swig):
        depth += (character == "(") - (character == ")")
        if character == ")" and depth == 0:
            end = index
            break
    arguments = [rust_type(each) for each in split_arguments(swig[2:end])]
    result = swig[end + 2 :]
    named = [f"{name}: {each}" for name, each in zip(names, arguments)] if names else arguments
    return f"({', '.join(named)})" + ("" if result == "void" else f" -> {rust_type(result)}")


def rust_type(swig: str) -> str:
    """Convert a type in SWIG's notation, which is read from left to right, to Rust."""
    if swig.startswith("p.f("):
        return f'Option<unsafe extern "C" fn{function(swig[2:], [])}>'
    if swig.startswith("p.q(const)."):
        return f"*const {rust_type(swig[len('p.q(const).'):])}"
    if swig.startswith("p."):
        return f"*mut {rust_type(swig[2:])}"
    array = re.fullmatch(r"a\((\d+)\)\.(.*)", swig)
    if array:
        return f"[{rust_type(array[2])}; {array[1]}]"
    return BASE.get(swig, swig)


def read_comments(header: Path) -> dict[str, str]:
    """Return the comments by the name that is declared after them. The name of a field is struct.field."""
    found, inside = {}, ""
    for comment, declared in re.findall(r"/\*\*(.*?)\*/\s*([^;{=\\]*)", header.read_text(encoding="utf-8"), re.DOTALL):
        callback = re.search(r"\(\*(\w+)\)", declared)
        whole = re.fullmatch(r"typedef struct (\w+) ", declared)
        called = re.search(r"(\w+)\(", declared)
        words = re.findall(r"\w+", declared.split("[")[0])
        if declared.startswith(("#", "enum", "@")) or not words:
            continue
        name = callback[1] if callback else whole[1] if whole else called[1] if called else words[-1]
        if whole:
            inside = name
        is_field = not name.lower().startswith("shampoo_")
        found[f"{inside}.{name}" if is_field else name] = comment
    return found


def doc(comment: str | None, indent: str = "") -> str:
    """Convert a C comment to Rust documentation without changing its words."""
    if comment is None:
        return ""
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() for line in comment.strip().splitlines()]
    text = "\n".join(lines)
    text = re.sub(r"([\[\]<>*]|(?<!\w)_|_(?!\w))", r"\\\1", text)
    text = re.sub(r"^@param (\S+) ", lambda found: f"- `{found[1]}` ".replace("\\", ""), text, flags=re.MULTILINE)
    text = re.sub(r"^@retval (\S+) ", lambda found: f"- returns `{found[1]}`: ".replace("\\", ""), text, flags=re.M)
    text = re.sub(r"^@return ", "- returns ", text, flags=re.MULTILINE)
    text = re.sub(r"^@since (.*)$", r"\nSince \1.", text, flags=re.MULTILINE)
    text = re.sub(r"^ +(?=\S)", "  ", text, flags=re.MULTILINE)
    # Lines that continue a list item are indented, up to the next blank line.
    text = re.sub(r"^- .*(\n(?!- |$).*)*", lambda item: re.sub(r"\n *", "\n  ", item[0]), text, flags=re.MULTILINE)
    return "".join(f"{indent}/// {line}".rstrip() + "\n" for line in text.splitlines())


def bindings(found: Declarations, comments: dict[str, str]) -> str:
    """Return the text of the file."""
    out = [HEAD]
    for name, value in found.constants.items():
        text = comments.get(name) or " Of the version of the header that these declarations are from. "
        out.append(f"{doc(text)}pub const {name}: i32 = {value};\n")
    for name, kind in found.aliases.items():
        out.append(f"{doc(comments.get(name))}pub type {name} = {rust_type(kind)};\n")
    for name in found.handles:
        fields_of_handle = "    _private: [u8; 0],\n    _marker: Unmovable,\n"
        out.append(f"{doc(comments.get(name))}#[repr(C)]\npub struct {name} {{\n{fields_of_handle}}}\n")
    for name, fields in found.structs.items():
        out.append(f"{doc(comments.get(name))}#[repr(C)]\n#[derive(Clone, Copy, Debug)]\npub struct {name} {{\n")
        for each, kind in fields.items():
            out[-1] += f"{doc(comments.get(f'{name}.{each}'), '    ')}    pub {each}: {rust_type(kind)},\n"
        out[-1] += "}\n"
    out.append('extern "C" {\n')
    for name, (parms, kind) in found.functions.items():
        out[-1] += doc(comments.get(name), "    ")
        line = f"    pub fn {name}{function(kind, [parm for parm, _ in parms])};"
        if len(line) > WIDTH:
            line = line.replace("(", "(\n        ", 1).replace(", ", ",\n        ")
            line = re.sub(r"\)( -> [^)]*)?;$", r",\n    )\1;", line)
        out[-1] += line + "\n"
    out[-1] += "}\n"
    return "\n".join(out)


def main() -> None:
    """Write the file, or check that it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = bindings(read_header(options.header), read_comments(options.header))
    if not options.check:
        options.out.write_text(text, encoding="utf-8")
    elif options.out.read_text(encoding="utf-8") != text:
        sys.exit(f"{options.out} does not match {options.header}; run generate.py")


if __name__ == "__main__":
    main()
