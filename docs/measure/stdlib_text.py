# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads the text for language models: the source files of Python's standard library."""
import pathlib
import sysconfig

VALIDATION_EVERY = 20  # one of 20 files is used for validation
SKIPPED = {"site-packages", "test", "tests", "idlelib", "__pycache__"}


def source_files() -> list[pathlib.Path]:
    """Returns the source files in the order of their names."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    return sorted(path for path in root.rglob("*.py") if not SKIPPED.intersection(path.relative_to(root).parts))


def read_bytes(least: int) -> tuple[bytes, bytes]:
    """Returns the bytes of all training files, and the bytes of all validation files. Exits with a message if one of
    the results has at most `least` bytes.
    """
    files = source_files()
    training = b"\n".join(path.read_bytes() for i, path in enumerate(files) if i % VALIDATION_EVERY != 0)
    validation = b"\n".join(path.read_bytes() for path in files[::VALIDATION_EVERY])
    if min(len(training), len(validation)) <= least:
        raise SystemExit(f"the standard library in {sysconfig.get_paths()['stdlib']} has {len(files)} source files; "
                         "expected several hundred. Use a Python whose library is installed as source files.")
    return training, validation
