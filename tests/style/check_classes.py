# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that no class has too many methods or data members, in the core, the C API and the bindings' native code.

Constructors, destructors and operators do not count as methods. The data members of a struct are not counted. A class
that exceeds a limit must be divided, unless it is in EXCEPTIONS.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import subprocess
import sys

MAX_METHODS = 25
MAX_MEMBERS = 20
FOLDERS = ("core", "capi/src", "bindings/python/native", "bindings/python/xla", "bindings/java/native")

# Each class that may exceed the limits -> the reason why it is not divided. At most MAX_EXCEPTIONS are allowed.
EXCEPTIONS: dict[str, str] = {
    "shampoo::cuda::Engine": "its public methods are the functions of Table in core/backend/cuda/interface.h",
}
MAX_EXCEPTIONS = 3


def tags(ctags: str, root: pathlib.Path, files: list[str]) -> list[dict[str, str]]:
    """Run ctags. Return its tags for the files."""
    options = ["--output-format=json", "--language-force=C++", "--kinds-C++=cspfm", "--fields=+neKsZ", "-L", "-"]
    found = subprocess.run(
        [ctags, *options], input="\n".join(files), capture_output=True, text=True, cwd=root, check=True
    )
    return [json.loads(line) for line in found.stdout.splitlines()]


def main() -> int:
    """Print the problems. Return their number as the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ctags", required=True)
    parser.add_argument("--list", type=int, default=0, metavar="N", help="print the N largest classes")
    parser.add_argument("root", type=pathlib.Path)
    options = parser.parse_args()

    files = [
        str(path.relative_to(options.root))
        for folder in FOLDERS
        for path in sorted((options.root / folder).rglob("*"))
        if path.suffix in (".h", ".cc", ".cu", ".cuh")
    ]
    classes: set[tuple[str, str]] = set()
    bodies: dict[tuple[str, str], list[range]] = collections.defaultdict(list)
    methods: dict[tuple[str, str], set[tuple[str, int]]] = collections.defaultdict(set)
    members: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    found = tags(options.ctags, options.root, files)
    for tag in found:
        if tag["kind"] in ("class", "struct"):
            name = "::".join(filter(None, (tag.get("scope"), tag["name"])))
            bodies[tag["path"], name].append(range(tag["line"], tag.get("end", tag["line"]) + 1))
    for tag in found:
        if tag.get("scopeKind") not in ("class", "struct"):
            continue
        name = tag["scope"].rsplit("::", 1)[-1]
        owner = (tag["path"], tag["scope"])
        if tag["scopeKind"] == "class":
            classes.add(owner)
        if tag["kind"] == "member":
            members[owner].add(tag["name"])
        elif tag["kind"] in ("prototype", "function"):
            is_special = tag["name"].lstrip("~") == name or tag["name"].startswith("operator")
            # If a method is defined outside of the body of its class, it has two tags. Count only the tag in the body.
            is_declared_here = any(tag["line"] in body for body in bodies[owner])
            if is_declared_here and not is_special:
                methods[owner].add((tag["name"], tag["line"]))
    sizes = [
        (len(methods[owner]), len(members[owner]) if owner in classes else 0, owner)
        for owner in set(methods) | set(members)
    ]
    for method_count, member_count, (path, name) in sorted(sizes, reverse=True)[: options.list]:
        print(f"{method_count:3} methods, {member_count:3} members: {name} ({path})")
    failures = [
        f"{path}: class {name} has {method_count} methods and {member_count} members; expected at most"
        f" {MAX_METHODS} and {MAX_MEMBERS}: divide it, or add it to EXCEPTIONS with a reason"
        for method_count, member_count, (path, name) in sorted(sizes, reverse=True)
        if (method_count > MAX_METHODS or member_count > MAX_MEMBERS) and name not in EXCEPTIONS
    ]
    if len(EXCEPTIONS) > MAX_EXCEPTIONS:
        failures.append(f"{len(EXCEPTIONS)} exceptions; expected at most {MAX_EXCEPTIONS}")
    if not any(count > 5 for count, _, _ in sizes):
        failures.append(f"ctags found no class with more than 5 methods in {len(files)} files; expected several")
    print("\n".join(failures) if failures else f"{len(sizes)} classes and structs within the limits")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
