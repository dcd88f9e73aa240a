# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Kinds of rules for running the commands of a page. An Edit must match text of its file. Each other rule of
a page must match a command.
"""
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Union


class Instead(NamedTuple):
    """Replaces the matches of the pattern in commands."""

    pattern: str
    text: str
    why: str
    unless: str = ""  # the rule is ignored if the machine has this feature


class Skip(NamedTuple):
    """Skips commands that match the pattern."""

    pattern: str
    why: str
    unless: str = ""


class Ends(NamedTuple):
    """Checks that commands that match the pattern end with one of the statuses and print a line that matches `says`."""

    pattern: str
    statuses: tuple[int, ...]
    says: str
    why: str


class Then(NamedTuple):
    """After each command that matches the pattern, runs another command, for example to check the result."""

    pattern: str
    command: str
    why: str


class Edit(NamedTuple):
    """Changes a file of the clone before the commands of the page run."""

    path: str
    pattern: str
    text: str
    why: str


Rule = Union[Instead, Skip, Ends, Then, Edit]


class Page(NamedTuple):
    """Describes how a page is run. A page that is missing in PAGES (page_rules.py) has the default values."""

    needs: tuple[str, ...] = ()  # pages that run before this one
    wants: tuple[str, ...] = ()  # features of the machine without which the page is skipped
    before: str = ""  # the reader's preparations: commands that run before those of the page, in the same folder
    program: str = ""  # the file to which the first C program of README.md is written
    rules: tuple[Rule, ...] = ()


class Plan(NamedTuple):
    """What runs in place of one command of a page."""

    command: str  # the command after all changes; empty if it is skipped
    ends: list[Ends]
    then: list[Then]
    notes: list[str]  # messages that are printed before the command


class Rules:
    """The rules of one page. `used` contains the rules that have matched a command or a file."""

    def __init__(self, rules: tuple[Rule, ...], have: Iterable[str]):
        self.rules, self.have, self.used = rules, set(have), set()

    def apply(self, text: str) -> Plan:
        plan = Plan(text, [], [], [])
        for rule in self.rules:
            if isinstance(rule, Edit) or not re.search(rule.pattern, text):
                continue
            self.used.add(rule)
            if getattr(rule, "unless", "") in self.have:
                continue
            if isinstance(rule, Instead):
                plan = plan._replace(command=re.sub(rule.pattern, rule.text, plan.command))
                plan.notes.append(f"changed: {rule.why}")
            elif isinstance(rule, Skip):
                plan = plan._replace(command="")
                plan.notes.append(f"NOT RUN: {text}: {rule.why}")
            else:
                (plan.ends if isinstance(rule, Ends) else plan.then).append(rule)
        return plan

    def edited(self, root: Path) -> dict[str, str]:
        """Returns the paths and the new contents of the files that Edit rules change."""
        files: dict[str, str] = {}
        for rule in self.rules:
            if isinstance(rule, Edit):
                old = files.get(rule.path) or (root / rule.path).read_text(encoding="utf-8")
                files[rule.path], count = re.subn(rule.pattern, rule.text, old, flags=re.MULTILINE)
                if count:
                    self.used.add(rule)
        return files
