# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs the shell commands of the documentation.

    run_shell.py --source ROOT --list                  lists the pages whose shell blocks can run on this machine
    run_shell.py --source ROOT --check                 checks that each rule of a page matches a command or a file,
                                                       and that Bash can parse the commands of each page
    run_shell.py --source ROOT --folder F --make       copies ROOT to F/clone, and creates other folders in F
    run_shell.py --source ROOT --folder F --page PAGE  runs the blocks of a page, one after another, in one Bash

--list prints one line for each page: its path, its name, and the names of the pages that must run before it, separated
by semicolons. Commands of an example's README.md run in the folder of the example in F/clone. All other commands run in
F/clone. The rules in shell/page_rules.py change, skip or check commands. Each rule has a reason.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

from shell.machine import Machine
from shell.page import first_program, shell_pages
from shell.page_rules import PAGES, WHERE
from shell.script import known, make_script

FEATURES = ("benchmark", "cuda", "java", "mpmath", "python", "rust")


def name_of(path):
    return re.sub(r"^(docs|examples)/|/README\.md$|\.md$", "", path).lower()


def listed(root, have):
    """Yields a line for each page that can run with the features `have`."""
    for path in shell_pages(root):
        if set(known(path).wants) <= set(have):
            yield ";".join([path, name_of(path), *map(name_of, known(path).needs)])


def check(root):
    paths = shell_pages(root)
    problems = [f"shell/page_rules.py has rules for {path}, which has no shell block" for path in sorted(set(PAGES) - set(paths))]
    for path in paths:
        script = make_script(root, path, {placeholder: "/somewhere" for placeholder in WHERE}, ())
        problems += script.problems
        done = subprocess.run(["bash", "-n"], input=script.text, capture_output=True, text=True, check=False)
        if done.returncode:
            problems.append(f"{path}: Bash cannot parse the changed commands: {done.stderr.strip()}")
    print("\n".join(problems + [f"{len(paths)} pages, {len(problems)} problems"]))
    return 1 if problems or not paths else 0


def run(root, path, machine, arguments):
    script = make_script(root, path, {placeholder: find(machine) for placeholder, find in WHERE.items()}, arguments.have)
    if script.problems:
        print("\n".join(script.problems))
        return 1
    place = machine.clone / (Path(path).parent if path.startswith("examples/") else "")
    if known(path).program:
        (place / known(path).program).write_text(first_program(root / "README.md"), encoding="utf-8")
    for name, text in script.files.items():
        (machine.clone / name).write_text(text, encoding="utf-8")
    file = machine.folder / f"{name_of(path)}.sh"
    file.write_text(script.text, encoding="utf-8")
    return subprocess.run(["bash", file], cwd=place, env=machine.environment(arguments.cargo), stdin=subprocess.DEVNULL,
                          stderr=subprocess.STDOUT, check=False).returncode  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, help="root of the repository")
    parser.add_argument("--folder", type=Path, help="the folder that --make fills and --page uses")
    parser.add_argument("--have", nargs="*", default=[], choices=FEATURES, help="features that this machine has")
    parser.add_argument("--cargo", default="", help="path of cargo; default: the first cargo in PATH")
    what = parser.add_mutually_exclusive_group(required=True)
    for name in ("list", "check", "make"):
        what.add_argument(f"--{name}", action="store_true")
    what.add_argument("--page")
    arguments = parser.parse_args()
    root = arguments.source.resolve()
    if arguments.list:
        print("\n".join(listed(root, arguments.have)))
        return 0
    if arguments.check:
        return check(root)
    if not arguments.folder:
        parser.error("--make and --page need a --folder")
    machine = Machine(arguments.folder.resolve())
    if arguments.make:
        machine.make(root)
        return 0
    return run(root, arguments.page, machine, arguments)


if __name__ == "__main__":
    sys.exit(main())
