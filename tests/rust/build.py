#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""build.py CARGO PROGRAM: builds the tests of the crate in the current folder and copies the executable to PROGRAM."""
import json
import shutil
import subprocess
import sys

cargo, program = sys.argv[1:]
command = [cargo, "test", "--locked", "--lib", "--no-run", "--message-format=json-render-diagnostics"]
printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
messages = [json.loads(line) for line in printed.splitlines()]
(built,) = {message["executable"] for message in messages if message.get("executable")}
shutil.copy(built, program)
