# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Applies the rules of a page to its commands, and creates one Bash script that runs the changed commands."""
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from shell.page import commands
from shell.page_rules import COMMON, PAGES
from shell.rules import Page, Plan, Rules

HEAD = r"""set -euo pipefail
at=
trap 'status=$?; [ $status -eq 0 ] || echo "$at: ended with status $status"' EXIT
said=$(mktemp -p "$HOME")
ends() { # STATUS... : exits with $status, unless $status is one of these statuses
  local one
  for one in "$@"; do [ "$one" != "$status" ] || return 0; done
  exit "$status"
}
says() { grep -qE -e "$1" "$said" || { echo "$at: the output has no line that matches: $1"; exit 1; }; }
"""


class Script(NamedTuple):
    text: str
    files: dict[str, str]  # {path: new content} for each file that a rule changes in the clone
    problems: list[str]


def known(path: str) -> Page:
    return PAGES.get(path, Page())


def step(place: str, plan: Plan) -> list[str]:
    lines = [f"at={shlex.quote(place)}"] + [f"printf '%s\\n' {shlex.quote('   ' + note)}" for note in plan.notes]
    if not plan.command:
        return lines
    lines.append(f"printf '+ %s: %s\\n' \"$at\" {shlex.quote(plan.command)}")
    if plan.ends:
        lines += ["status=0", "{", plan.command, '} >"$said" 2>&1 || status=$?', 'cat "$said"']
        lines += [f"ends {' '.join(map(str, rule.statuses))}; says {shlex.quote(rule.says)}" for rule in plan.ends]
    else:
        lines += [plan.command, "status=$?; ends 0"]  # set -e does not end the shell if a part of a list with && fails
    for rule in plan.then:
        lines += [f"printf '  then %s\\n' {shlex.quote(rule.command)}", rule.command, "status=$?; ends 0"]
    return lines


def make_script(root: Path, path: str, where: dict[str, str], have: Iterable[str]) -> Script:
    page = known(path)
    rules = Rules(page.rules + COMMON, have)
    files, problems, count = rules.edited(root), [], 0
    lines = [HEAD] + [f"echo {shlex.quote(f'{name} differs from the repository')}" for name in files]
    if page.before:
        lines += [f"at={shlex.quote('before ' + path)}", "set -x", page.before, "{ set +x; } 2>/dev/null"]
    for command in commands(root / path):
        count += 1
        text = command.text
        for placeholder, folder in where.items():
            text = text.replace(placeholder, folder)
        left = re.search(r"/(where|path/to)/[\w/]*", text)
        if left:
            place = f"{path}:{command.line}"
            problems.append(f"{place}: no folder replaces {left.group()}: add it to WHERE in shell/page_rules.py")
        lines += step(f"{path}:{command.line}", rules.apply(text))
    problems += [f"{path}: this rule matches nothing, correct or remove it: {rule}" for rule in page.rules if rule not in rules.used]
    if not count:
        problems.append(f"{path}: it has no command")
    lines.append(f"echo '{count} commands of {path}'")
    return Script("\n".join(lines) + "\n", files, problems)
