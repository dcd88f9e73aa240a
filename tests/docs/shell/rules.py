# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The kinds of rules by which a command of a page is run otherwise than it stands there. A rule that finds nothing is an error."""
import re
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Tuple, Union


class Instead(NamedTuple):
    """What the pattern finds is replaced."""
    pattern: str
    text: str
    why: str
    unless: str = ""  # where this is there, the rule is not


class Skip(NamedTuple):
    """A command in which the pattern is found is not run."""
    pattern: str
    why: str
    unless: str = ""


class Ends(NamedTuple):
    """A command in which the pattern is found may end with one of these statuses, and says something."""
    pattern: str
    statuses: Tuple[int, ...]
    says: str
    why: str


class Then(NamedTuple):
    """A command behind one in which the pattern is found: a look at what it has made."""
    pattern: str
    command: str
    why: str


class Edit(NamedTuple):
    """A file of the clone is changed before the page is run."""
    path: str
    pattern: str
    text: str
    why: str


Rule = Union[Instead, Skip, Ends, Then, Edit]


class Page(NamedTuple):
    """How one page is run; a page without an entry is run as it stands."""
    needs: Tuple[str, ...] = ()  # pages that are run before
    wants: Tuple[str, ...] = ()  # without these features of the machine the page is left out
    before: str = ""  # what its reader has done or has at hand, in the page's folder
    program: str = ""  # the file into which its reader has put the program of README.md
    rules: Tuple[Rule, ...] = ()


class Plan(NamedTuple):
    """One command as it is run."""
    command: str  # empty: skipped
    ends: List[Ends]
    then: List[Then]
    notes: List[str]


class Rules:
    """The rules of one page, and which of them found something."""

    def __init__(self, rules: Tuple[Rule, ...], have: Iterable[str]):
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
                plan.notes.append(f"not as it stands: {rule.why}")
            elif isinstance(rule, Skip):
                plan = plan._replace(command="")
                plan.notes.append(f"NOT RUN: {text}: {rule.why}")
            else:
                (plan.ends if isinstance(rule, Ends) else plan.then).append(rule)
        return plan

    def edited(self, root: Path) -> Dict[str, str]:
        """The files that are changed, with what is in them then."""
        files: Dict[str, str] = {}
        for rule in self.rules:
            if isinstance(rule, Edit):
                old = files.get(rule.path) or (root / rule.path).read_text(encoding="utf-8")
                files[rule.path], count = re.subn(rule.pattern, rule.text, old, flags=re.MULTILINE)
                if count:
                    self.used.add(rule)
        return files
