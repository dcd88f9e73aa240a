#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""translate.py SOURCE TARGET: translates a CUDA source of the examples to C++ for the fake CUDA.

Replaces kernel<<<...>>>(...) by fake_gpus::Launch<&kernel>(...)(...), and adds an include of kernels.h, which declares
Launch.
"""
import re
import sys
from pathlib import Path

source, target = map(Path, sys.argv[1:])
text = source.read_text(encoding="utf-8")
text, count = re.subn(r"(\w+)<<<(.*?)>>>\(", r"fake_gpus::Launch<&\1>(\2)(", text, flags=re.S)
assert count > 0, f"{source}: no kernel is launched"
target.write_text(f'#include "tests/examples/fake_gpus/kernels.h"\n#line 1 "{source}"\n{text}', encoding="utf-8")
