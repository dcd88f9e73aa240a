# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Settings of Sphinx, which build.py runs."""
from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "capi/include/shampoo/shampoo.h").read_text(encoding="utf-8")

project = "libshampoo"
author = "The libshampoo authors"
copyright = author  # noqa: A001
release = ".".join(re.findall(r"^#define SHAMPOO_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", HEADER, re.MULTILINE))
version = release

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
# Code in guides may be a fragment that the lexer cannot parse.
suppress_warnings = ["misc.highlighting_failure"]

myst_heading_anchors = 6

breathe_default_project = "libshampoo"
breathe_projects: dict[str, str] = {}  # build.py sets the folder
breathe_domain_by_extension = {"h": "c"}
breathe_show_include = False
breathe_show_enumvalue_initializer = True
c_maximum_signature_line_length = 72

autodoc_mock_imports = ["jax", "libshampoo.xla_call", "ml_dtypes", "mpi4py", "numpy", "tinygrad", "torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
python_maximum_signature_line_length = 72
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# Names of C, MPI, NCCL, Python and other packages have no links. Their documentation is on other sites, and the build
# uses no network.
nitpick_ignore_regex = [
    (r"c:.*", r"(?!shampoo|SHAMPOO).*"),
    (r"py:.*", r"(?!libshampoo).*"),
]

html_theme = "furo"
html_title = f"libshampoo {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("search_order.js"))
html_copy_source = False
html_domain_indices = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
pygments_style = "friendly"


class NativeModule(ModuleType):
    """Replaces the compiled module libshampoo._native, so that autodoc can import the Python package without a build.

    Each constant of the C API is a different number. Every other name that is not defined below is an empty class. The
    keys are read from docs/keys.md.
    """

    def __init__(self) -> None:
        super().__init__("libshampoo._native")
        self._constants: dict[str, int] = {}
        page = (ROOT / "docs/keys.md").read_text(encoding="utf-8")
        everyday, _, for_replay = page.partition("## Keys that reproduce other implementations")
        row = re.compile(r"^\| `(\w+)`([^|]*)\| ([^|]*) \| ([^|]*) \| ([^|]*) \| (.*) \|$", re.MULTILINE)
        self._keys = row.findall(everyday)
        self._everyday = len(self._keys)
        self._keys += row.findall(for_replay)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith("SHAMPOO_"):
            return self._constants.setdefault(name, len(self._constants))
        return type(name, (), {"__module__": self.__name__})

    def start(self, module: ModuleType) -> None:
        """Do nothing, unlike the compiled module."""

    def shampoo_version(self) -> int:
        return 0

    def shampoo_config_key_count(self) -> int:
        return len(self._keys)

    def shampoo_config_describe_key(self, index: int, info: Any) -> None:
        """Describe a key as the compiled module does."""
        info.name, marks, info.value_type, info.default_value, info.range, info.doc = self._keys[index]
        info.scope, info.changeable = int("(o)" not in marks), int("(c)" in marks)
        info.for_replay = int(index >= self._everyday)

    def shampoo_set_log(self, callback: Any, level: int) -> None:
        """Do nothing, unlike the compiled module."""


sys.path.insert(0, str(ROOT / "bindings/python"))
sys.modules["libshampoo._native"] = NativeModule()


class LinkNames(SphinxTransform):
    """Turns names of the C API in guides, such as `shampoo_save()`, into links to the reference."""

    default_priority = 400
    _NAME = re.compile(r"((?:shampoo|SHAMPOO)_\w*[a-zA-Z0-9])(?:\(\))?")

    def apply(self, **kwargs: Any) -> None:
        for literal in list(self.document.findall(nodes.literal)):
            match = self._NAME.fullmatch(literal.astext())
            if match is None or isinstance(literal.parent, (nodes.reference, pending_xref)):
                continue
            reference = pending_xref(
                "", refdomain="c", reftype="identifier", reftarget=match[1], refdoc=self.env.docname, refwarn=False,
                refexplicit=True, **{"link-names": True},
            )  # fmt: skip
            literal.replace_self(reference)
            reference += literal


class MarkLongText(SphinxTransform):
    """Marks each table cell that has much text, so that the style sheet can make the cell wide enough."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for entry in self.document.findall(nodes.entry):
            if len(entry.astext()) > 60:
                entry["classes"].append("long-text")


class UnwrapPages(SphinxTransform):
    """Moves a Doxygen page's content into the enclosing section, so the table of contents lists the page's headings."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for content in list(self.document.findall(addnodes.desc_content)):
            if isinstance(content.parent, nodes.container):
                content.parent.replace_self(content.children)


class LeaveOutAnonymous(SphinxTransform):
    """Removes the word [anonymous] from enumerations without a name."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for name in list(self.document.findall(addnodes.desc_name)):
            if name.astext() == "[anonymous]":
                name.parent.remove(name)


class JoinArguments(SphinxTransform):
    """Combines the arguments of a function type into one list. Sphinx itself combines only those of functions."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for fields in self.document.findall(nodes.field_list):
            arguments = [field for field in fields if field[0].astext().startswith("Param ")]
            if not arguments:
                continue
            items = nodes.bullet_list()
            for field in arguments:
                name = nodes.strong("", field[0].astext().removeprefix("Param "))
                text = nodes.paragraph("", "", name, nodes.Text(" \N{EN DASH} "), *field[1][0].children)
                items += nodes.list_item("", text, *field[1].children[1:])
                fields.remove(field)
            fields.insert(0, nodes.field("", nodes.field_name("", "Parameters"), nodes.field_body("", items)))


def keep_unknown_name(app: Sphinx, env: Any, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
    """If a name from LinkNames is not in the C reference, show it without a link. It may be a CMake option."""
    return content if node.get("link-names") else None


def shorten_default(
    app: Sphinx, what: str, name: str, item: Any, options: Any, signature: str | None, result: str | None
) -> tuple[str, str | None] | None:
    """Show "..." as the default of an argument if the default is a marker object that means "not passed"."""
    return (signature.replace("<object object>", "..."), result) if signature else None


def setup(app: Sphinx) -> None:
    """Register the transforms and the handlers of events."""
    for transform in (JoinArguments, LeaveOutAnonymous, LinkNames, MarkLongText, UnwrapPages):
        app.add_transform(transform)
    app.connect("missing-reference", keep_unknown_name)
    app.connect("autodoc-process-signature", shorten_default)
