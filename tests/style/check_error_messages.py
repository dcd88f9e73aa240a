#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_error_messages.py ROOT: checks the form of the error messages in core and capi/src.

A call of one of FUNCTIONS, such as Invalid("key ", name, " is ", value, "; expected ", range), creates an error. The
string literals of the call form a text. In a text, "{}" represents a value, and "|" separates the two alternatives of
"? :". No text may match a pattern of FORBIDDEN. Every text of Invalid must also contain a word of GUIDANCE, unless
EXCEPTIONS lists a part of the text. Literals outside of such calls are not checked.
"""
import re
import sys
from pathlib import Path

FOLDERS = ("core", "capi/src")
FUNCTIONS = ("Invalid", "Unsupported", "WrongState", "NoMemory", "Numeric", "CommFailed", "IoFailed", "DeviceError",
             "Internal")
CALL = re.compile(rf"(?<![\w:~])({'|'.join(FUNCTIONS)})\($")
VALUE, ALTERNATIVE = "{}", "|"

# A comment, a character literal, a string literal (possibly raw), or any other single character.
TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|'(?:\\.[^'\n]*|[^\\'\n])'|R"(?P<raw>.*?)\((?P<plain>.*?)\)(?P=raw)"|"""
                   r""""(?P<text>(?:\\.|[^"\\])*)"|.""", re.DOTALL)

# A text may begin with one of these names, although they have capital letters.
NAMES = ("SHAMPOO_", "CUDA", "NCCL", "NaN", "BLAS", "LAPACK", "MPI")

# Patterns that no text may match -> what is wrong with a text that matches.
FORBIDDEN = (
    (re.compile(rf"^(?!{'|'.join(NAMES)})[A-Z]"), "begins with a capital letter"),
    (re.compile(r"\b([Tt]old|[Tt]ells?|[Dd]ear|[Ss]tands?|[Ss]tood)\b"),
     "contains a word that docs/style.md forbids"),
    (re.compile(r"!"), "contains an exclamation mark"),
    (re.compile(r"(?<!\.\.)\.$"), "ends with a period"),
    (re.compile(r"  "), "contains two blanks in a row"),
    (re.compile(r"^ | $"), "begins or ends with a blank"),
)

# Words that introduce the expected value, or imperatives that introduce the next step.
GUIDANCE = re.compile(r"\b(expected|must|needs?|takes|accepts|only|starts at|lists|did you mean|see|add|bind|call|"
                      r"check|choose|create|give|leave|make|pass|put|read|save|set|use)\b", re.IGNORECASE)

# Texts of Invalid that need no guidance: a part of the text -> the reason.
MAX_EXCEPTIONS = 10
EXCEPTIONS = {
    'there is no key "{}": {}': "the second value is the advice, see kAbsentOptions",
    "key root_rank_rtol is auto": "the text explains why a query has no number to return",
}


def texts(source):
    """Yield (line, function, text) for every call of FUNCTIONS that has a literal."""
    code, stack, line = "", [], 1
    for token in TOKEN.finditer(source):
        word = token.group(0)
        literal = token.group("plain") if token.group("text") is None else token.group("text")
        if literal is not None:
            for call in stack:
                call["pieces"].append((call["code"], literal.replace('\\"', '"').replace("\\\\", "\\")))
                call["code"] = ""
        elif word == "(":
            code += word
            for call in stack:
                call["code"] += word
                call["depth"] += 1
            found = CALL.search(code)
            if found:
                stack.append({"function": found.group(1), "line": line, "pieces": [], "code": "", "depth": 1})
        elif word == ")":
            code += word
            for call in stack:
                call["code"] += word
                call["depth"] -= 1
            if stack and stack[-1]["depth"] == 0:
                call = stack.pop()
                if call["pieces"]:
                    yield call["line"], call["function"], joined(call["pieces"], call["code"][:-1])
        elif not word.startswith(("//", "/*")):
            code = (code + word)[-200:]
            for call in stack:
                call["code"] += word
        line += word.count("\n")


def joined(pieces, rest):
    """Return the text of a call. Code between literals becomes "{}" or "|", unless it only separates the literals."""
    text = ""
    for code, literal in pieces:
        code = code.strip()
        if code == ":":
            text += ALTERNATIVE
        elif code.endswith("?"):  # `code` ends with the condition of "? :"; the arguments before it are values
            text += VALUE if code.rpartition(",")[0].strip(" ,\n") else ""
        elif code.strip(" ,\n"):
            text += VALUE
        text += literal
    return text + (VALUE if rest.strip(" ,\n") else "")


def problems(function, text):
    """Yield the problems of a text."""
    yield from (message for pattern, message in FORBIDDEN if pattern.search(text))
    if function == "Invalid" and not GUIDANCE.search(text) and not any(part in text for part in EXCEPTIONS):
        yield "contains neither the expected value nor the next step"


def main():
    root, count, failures, seen = Path(sys.argv[1]), 0, [], ""
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in (".cc", ".cu", ".h"):
                continue
            for line, function, text in texts(file.read_text(encoding="utf-8")):
                count += 1
                seen += text + "\n"
                failures += [f"{file.relative_to(root)}:{line}: {function}: this text {problem}: {text}"
                             for problem in problems(function, text)]
    failures += [f"this exception matches no text, remove it: {part}" for part in EXCEPTIONS if part not in seen]
    if len(EXCEPTIONS) > MAX_EXCEPTIONS:
        failures.append(f"there are {len(EXCEPTIONS)} exceptions, expected at most {MAX_EXCEPTIONS}")
    print("\n".join(failures + [f"{count} error messages, {len(failures)} problems"]))
    # Fail if no text was found, because then the search is wrong.
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
