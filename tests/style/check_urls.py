#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_urls.py ROOT BUILD: checks that other files have the URLs that cmake/urls.cmake sets.

cmake/urls.cmake sets the URL of the project and the URL of its issue tracker. The script prints each file that has a
different URL in a field of FIELDS or MADE. It also prints each file that still contains PLACEHOLDER, unless a URL in
cmake/urls.cmake contains it. BUILD is the build folder, which contains the files that CMake generates. The script does
not check any other text. After changing cmake/urls.cmake, search the other files for the previous URL with `git grep`.
"""
import re
import subprocess
import sys
from pathlib import Path

PLACE = "cmake/urls.cmake"
PLACEHOLDER = "example.org/" + "libshampoo"
CRATES = "bindings/rust"

# A file, the pattern of a field in it, and the variable in PLACE that has the URL of the field.
FIELDS = (
    ("pyproject.toml", r'(?ms)^\[project\.urls\]\n(?:[^\[]*\n)?Homepage = "(.*?)"$', "SHAMPOO_URL"),
    ("pyproject.toml", r'(?ms)^\[project\.urls\]\n(?:[^\[]*\n)?Issues = "(.*?)"$', "SHAMPOO_ISSUES_URL"),
    (f"{CRATES}/libshampoo-sys/Cargo.toml", r'(?m)^repository = "(.*)"$', "SHAMPOO_URL"),
    (f"{CRATES}/libshampoo-sys/Cargo.toml", r'(?m)^homepage = "(.*)"$', "SHAMPOO_URL"),
    (f"{CRATES}/libshampoo/Cargo.toml", r'(?m)^repository = "(.*)"$', "SHAMPOO_URL"),
    (f"{CRATES}/libshampoo/Cargo.toml", r'(?m)^homepage = "(.*)"$', "SHAMPOO_URL"),
    ("bindings/java/pom.xml", r"(?m)^  <url>(.*)</url>$", "SHAMPOO_URL"),
    ("bindings/java/pom.xml", r"<scm>\s*<url>(.*)</url>\s*</scm>", "SHAMPOO_URL"),
    ("bindings/java/pom.xml", r"<issueManagement>\s*<url>(.*)</url>\s*</issueManagement>", "SHAMPOO_ISSUES_URL"),
    ("docs/troubleshooting.md", r"\[issue tracker\]\((.*?)\)", "SHAMPOO_ISSUES_URL"),
    ("docs/faq.md", r"\[issue tracker\]\((.*?)\)", "SHAMPOO_ISSUES_URL"),
)
# Entries with the form of FIELDS, for files that CMake generates in the build folder.
MADE = (
    ("capi/shampoo.pc", r"(?m)^URL: (.*)$", "SHAMPOO_URL"),
    ("CPackConfig.cmake", r'(?m)^set\(CPACK_DEBIAN_PACKAGE_HOMEPAGE "(.*)"\)$', "SHAMPOO_URL"),
    ("debian/copyright", r"(?m)^Source: (.*)$", "SHAMPOO_URL"),
)


def problems_of(folder, fields, urls):
    for name, pattern, which in fields:
        found = re.findall(pattern, folder.joinpath(name).read_text(encoding="utf-8"))
        if not found:
            yield f"{name}: nothing matches {pattern}; expected {urls[which]}"
        yield from (f"{name}: {url}; expected {urls[which]}" for url in found if url != urls[which])


def leftovers(root, urls):
    if any(PLACEHOLDER in url for url in urls.values()):
        return
    done = subprocess.run(["git", "-C", root, "grep", "-lF", PLACEHOLDER], capture_output=True, text=True, check=False)
    yield from (f"{name}: still contains https://{PLACEHOLDER}" for name in done.stdout.splitlines())


def main():
    root, build = map(Path, sys.argv[1:])
    urls = dict(re.findall(r"(?m)^set\((\w+) (https://\S+)\)$", root.joinpath(PLACE).read_text(encoding="utf-8")))
    if set(urls) != {"SHAMPOO_URL", "SHAMPOO_ISSUES_URL"}:
        raise SystemExit(f"{PLACE} sets {sorted(urls)}; expected SHAMPOO_ISSUES_URL and SHAMPOO_URL, each an https:// address")
    problems = [*problems_of(root, FIELDS, urls), *problems_of(build, MADE, urls), *leftovers(root, urls)]
    print("\n".join([*problems, f"{len(problems)} differences from {PLACE}"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
