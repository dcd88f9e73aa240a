# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_commands.py ROOT: checks the shell commands and the SVG files of the documentation.

Bash must be able to parse each block of commands. Scripts that occur in the commands must exist, and so must presets,
targets and SHAMPOO_ options of CMake. Each SVG file of the repository must be shown on a page that also has the command
that creates the file. Any occurrence of the file's name outside links counts as this command.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

from check_code import blocks, pages

WORD = r"[\w./-]+"


def known(root):
    presets = json.loads((root / "CMakePresets.json").read_text(encoding="utf-8"))
    cmake = "\n".join(path.read_text(encoding="utf-8") for path in tracked(root) if path.name == "CMakeLists.txt" or path.suffix == ".cmake")
    return {
        "preset": {preset["name"] for kind in presets if kind.endswith("Presets") for preset in presets[kind]},
        "option": set(re.findall(r"\bSHAMPOO_[A-Z0-9_]+\b", cmake)),
        "target": set(re.findall(r"add_(?:executable|library|custom_target)\((\w+)", cmake)),
    }


def tracked(root):
    said = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=True)
    return [root / name for name in said.stdout.splitlines()]


def problems_of(root, page, text, names):
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"bash cannot parse this block: {done.stderr.strip()}"
    for kind, pattern in (("preset", rf"--preset[ =]({WORD})"), ("option", r"-D ?(SHAMPOO_[A-Z0-9_]+)"), ("target", rf"--target ({WORD})")):
        for name in re.findall(pattern, text):
            if name not in names[kind]:
                yield f"there is no {kind} {name}"
    for script in re.findall(rf"\b(?:bash|sh|python3?) ({WORD}\.(?:sh|py))\b", text):
        if not (root / script).exists() and not (page.parent / script).exists():
            yield f"there is no script {script}"


def figures_without_command(root):
    """Yields each SVG file for which no page both shows the file and has the file's name outside links."""
    shown = {}
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+\.svg)\)", text):
            beside = re.sub(r"!?\[[^\]]*\]\([^)]*\)", "", text)
            shown.setdefault((page.parent / target).resolve(), []).append(Path(target).name in beside)
    for path in tracked(root):
        if path.suffix == ".svg" and not any(shown.get(path, [])):
            yield path.relative_to(root)


def main():
    root = Path(sys.argv[1]).resolve()
    names, count, failures = known(root), 0, []
    for page in pages(root):
        for first, language, lines in blocks(page):
            if language not in ("sh", "bash"):
                continue
            count += 1
            failures += [f"{page.relative_to(root)}:{first}: {why}" for why in problems_of(root, page, "\n".join(lines) + "\n", names)]
    failures += [f"{path}: expected a page with this picture and its command" for path in figures_without_command(root)]
    print("\n".join(failures + [f"{count} blocks of shell, {len(failures)} problems"]))
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
