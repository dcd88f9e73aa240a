# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_messages.py ROOT: checks that every message that docs/troubleshooting.md quotes exists in the sources.

A quotation is a code span at the start of a list item: "- `text`". In a quotation, "..." represents a value or omitted
text. The parts between the ellipses must occur, in this order, in the string literals of one statement in core, capi,
bindings or cmake.
"""
import ast
import re
import sys
from pathlib import Path

PAGE = "docs/troubleshooting.md"
FOLDERS = ("core", "capi", "bindings", "cmake")
LIKE_C = (".cc", ".cu", ".h", ".i", ".java", ".rs")
ITEM = re.compile(r"^\s*- (`+)(.+?)\1(?!`)")
ELLIPSIS = "..."
LEAST = 12  # the longest part of a quotation must have at least this number of characters
VALUE = "\0"  # represents a value, or code between two literals, in the text of a statement

# A comment, a character literal, a string literal (in C++ possibly raw), or any other single character.
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.[^'\n]*|[^\\'\n])'|R"(?P<raw>.*?)\((?P<plain>.*?)\)(?P=raw)"|"""
                   r""""(?P<text>(?:\\.|[^"\\])*)"|.""", re.DOTALL)
ESCAPE = re.compile(r"\\(\n\s*|.)", re.DOTALL)
CMAKE_MESSAGE = re.compile(r"""\bmessage\(\w+\s+((?:"(?:\\.|[^"\\])*"\s*)+)\)""")


def unescaped(literal):
    return ESCAPE.sub(lambda found: "" if found.group(1)[0] == "\n" else found.group(1), literal)


def between(code):
    """Returns "" if the code between two literals joins them or ends with "?" or ":", otherwise VALUE."""
    code = code.strip()
    return "" if code in ("", ",", "+") or code.endswith(("?", ":")) else VALUE


def statements_like_c(source):
    text, code = "", ""
    for token in TOKEN.finditer(source):
        word = token.group(0)
        literal = token.group("plain") if token.group("text") is None else unescaped(token.group("text"))
        if literal is not None:
            text, code = text + between(code) + literal, ""
        elif word == ";":
            yield text
            text = code = ""
        elif not word.startswith(("//", "/*")):
            code += word
    yield text


def statements_of_python(source):
    tree = ast.parse(source)
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else VALUE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def statements_of_cmake(source):
    for found in CMAKE_MESSAGE.finditer(source):
        yield "".join(unescaped(literal) for literal in re.findall(r'"((?:\\.|[^"\\])*)"', found.group(1)))


def statements(root):
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in LIKE_C:
                yield from statements_like_c(file.read_text(encoding="utf-8"))
            elif file.suffix == ".py":
                yield from statements_of_python(file.read_text(encoding="utf-8"))
            elif file.suffix == ".cmake" or file.name == "CMakeLists.txt":
                yield from statements_of_cmake(file.read_text(encoding="utf-8"))


def quotations(page):
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        found = ITEM.match(line)
        if found:
            yield number, found.group(2).strip()


def problem(quotation, known):
    parts = [part.strip() for part in quotation.split(ELLIPSIS) if part.strip()]
    if max(map(len, parts), default=0) < LEAST:
        return "too short to identify a message"
    message = re.compile(".*?".join(map(re.escape, parts)), re.DOTALL)
    if not any(message.search(text) for text in known):
        return "no statement of " + ", ".join(FOLDERS) + " contains this"
    return None


def main():
    root = Path(sys.argv[1]).resolve()
    known = sorted({text for text in statements(root) if len(text) >= LEAST})
    count = failures = 0
    for number, quotation in quotations(root / PAGE):
        count += 1
        why = problem(quotation, known)
        if why:
            failures += 1
            print(f"{PAGE}:{number}: `{quotation}`: {why}")
    print(f"{count} quoted messages; {failures} are too short or in none of the {len(known)} statements of the sources")
    # If no quotation was found, the search for quotations is broken.
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
