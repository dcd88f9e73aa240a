#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_additions.py REPOSITORY SWIG: checks that additions to the header appear in every binding automatically.

The script adds a function, a field and a constant to a copy of the header. It generates the declarations of each
binding from this copy and from the original header. The additions must appear in the declarations from the copy, and
must not appear in those from the original.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

root, swig = Path(sys.argv[1]), sys.argv[2]
HEADER = root.joinpath("capi/include/shampoo/shampoo.h").read_text(encoding="utf-8")
ADDED = {  # each value is inserted before its key, which is a string in the header
    "shampoo_status shampoo_matrix_inverse_root(": "shampoo_status shampoo_optimizer_added(shampoo_optimizer* opt, "
    "int32_t number, const char* text, double* value_out);\n",
    "} shampoo_plan_desc;": "  /** A field that is added. */\n  int64_t added_field;\n",
    "  SHAMPOO_OK = 0,": "  SHAMPOO_ADDED = 77,\n",
}


def generate_python(include: Path, out: Path) -> None:
    """Run SWIG as bindings/python/CMakeLists.txt does."""
    run_swig(include, out, "c", "-python", "-builtin", "-interface", "_native")


def generate_java(include: Path, out: Path) -> None:
    """Run SWIG as bindings/java/CMakeLists.txt does."""
    run_swig(include, out, "cc", "-java", "-c++", "-package", "io.github.libshampoo", "-module", "Raw", "-Wall")


def run_swig(include: Path, out: Path, suffix: str, *options: str) -> None:
    folder = root / "bindings/swig"
    wrapper = out / f"shampoo_wrap.{suffix}"
    command = [swig, *options, "-Werror", f"-I{folder}", f"-I{include}", "-outdir", out, "-o", wrapper]
    subprocess.run([*command, folder / "shampoo.i"], check=True)


def generate_rust(include: Path, out: Path) -> None:
    """Run the generator as a developer does after changing the header."""
    command = [sys.executable, root / "bindings/rust/generate.py", "--header", include / "shampoo/shampoo.h"]
    subprocess.run([*command, "--out", out / "bindings.rs"], check=True)


# For each binding: its generator, and the strings that each generated file must contain after the additions.
BINDINGS = {
    "Python": (
        generate_python,
        {
            "shampoo_wrap.c": [
                '{ "shampoo_optimizer_added", _wrap_shampoo_optimizer_added,',
                "= (shampoo_status)shampoo_optimizer_added(arg1,arg2,(char const *)arg3,arg4);",
                '{ (char *)"added_field",',
                '"SHAMPOO_ADDED"',
            ]
        },
    ),
    "Java": (
        generate_java,
        {
            "Raw.java": ["void shampoo_optimizer_added(long opt, int number, String text, double[] value_out)"],
            "shampoo_plan_desc.java": ["void setAdded_field(long value)", "long getAdded_field()"],
            "RawConstants.java": ["SHAMPOO_ADDED = 77"],
            "shampoo_wrap.cc": ["shampoo_optimizer_added(arg1,arg2,(char const *)arg3,arg4)"],
        },
    ),
    "Rust": (
        generate_rust,
        {
            "bindings.rs": [
                "pub fn shampoo_optimizer_added(",
                "opt: *mut shampoo_optimizer,",
                "value_out: *mut f64,",
                "    /// A field that is added.\n    pub added_field: i64,\n",
                "pub const SHAMPOO_ADDED: i32 = 77;",
            ]
        },
    ),
}


def generated_files(header: str, generate, folder: Path) -> dict[str, str]:
    """Run the generator of a binding on a header. Return the contents of the files that it writes, by name."""
    include, out = folder / "include", folder / "out"
    include.joinpath("shampoo").mkdir(parents=True)
    include.joinpath("shampoo/shampoo.h").write_text(header, encoding="utf-8")
    out.mkdir()
    generate(include, out)
    return {file.name: file.read_text(encoding="utf-8") for file in out.iterdir()}


def main() -> None:
    """Check that the additions appear in the files of every binding, and only after they were added to the header."""
    text = HEADER
    for place, addition in ADDED.items():
        assert text.count(place) == 1, f"the header has {place!r} {text.count(place)} times"
        text = text.replace(place, addition + place)
    with tempfile.TemporaryDirectory() as name:
        for binding, (generate, expected) in BINDINGS.items():
            unchanged = generated_files(HEADER, generate, Path(name, binding, "unchanged"))
            added = generated_files(text, generate, Path(name, binding, "added"))
            for file, parts in expected.items():
                for part in parts:
                    assert part in added[file], f"{binding}: {file} has no {part!r}"
            for file, content in unchanged.items():
                # "dded_field" matches added_field, and also the names setAdded_field and getAdded_field in Java.
                for word in ("optimizer_added", "dded_field", "SHAMPOO_ADDED"):
                    assert word not in content, f"{binding}: {file} has {word} without the addition"


main()
