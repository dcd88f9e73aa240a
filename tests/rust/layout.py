#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes two files for the test rust.layout, which compares the layouts of the declarations in C and in Rust.

    layout.py --header shampoo.h --exports exports.txt --compiler cc --out FOLDER

SWIG reads the names of structs, fields, constants and functions from the header. FOLDER/expected.txt has the
sizes, offsets, initial values and constants that a C program prints, and then a line for each exported function.
FOLDER/layout.rs is Rust code that must produce the same lines.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bindings/rust"))
from generate import Declarations, read_header  # noqa: E402

C_HEAD = """\
#include <shampoo/shampoo.h>
#include <stdio.h>

#define STRUCT(type) printf("struct %s %zu %zu\\n", #type, sizeof(type), _Alignof(type));
#define FIELD(type, field) \\
  printf("field %s.%s %zu %zu\\n", #type, #field, offsetof(type, field), sizeof(((type*)0)->field));
#define CONSTANT(name) printf("constant %s %lld\\n", #name, (long long)(name));
#define INIT(type, macro) \\
  { \\
    static const type made = macro; \\
    printf("init %s ", #type); \\
    for (size_t i = 0; i < sizeof made; ++i) printf("%02x", ((const unsigned char*)&made)[i]); \\
    printf("\\n"); \\
  }

int main(void) {
"""


def c_and_rust_lines(found: Declarations) -> tuple[list[str], list[str]]:
    """Return the lines of the C program, and the lines of layout.rs."""
    c, rust = [], []
    for name in found.constants:
        c.append(f"CONSTANT({name})")
        rust.append(f"constant!(lines, {name});")
    for name, fields in found.structs.items():
        c += [f"STRUCT({name})", *(f"FIELD({name}, {field})" for field in fields), f"INIT({name}, {name.upper()}_INIT)"]
        rust.append(f"layout!(lines, {name}, {', '.join(fields)});")
    rust += [f"function!(lines, {name});" for name in found.functions]
    return c, rust


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", type=Path, required=True)
    parser.add_argument("--exports", type=Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    c, rust = c_and_rust_lines(read_header(options.header))
    (options.out / "layout.rs").write_text("\n".join(["{", *rust, "}"]) + "\n", encoding="ascii")
    program = options.out / "layout"
    program.with_suffix(".c").write_text(C_HEAD + "\n".join(c) + "\n  return 0;\n}\n", encoding="ascii")
    include = options.header.resolve().parents[1]
    subprocess.run([options.compiler, "-std=c11", f"-I{include}", f"{program}.c", "-o", str(program)], check=True)
    printed = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = options.exports.read_text(encoding="ascii").split()
    names.remove("shampoo_get_api")  # declared in api.h, which the Rust declarations do not include
    exported = "".join(f"function {name}\n" for name in names)
    (options.out / "expected.txt").write_text(printed + exported, encoding="ascii")


if __name__ == "__main__":
    main()
