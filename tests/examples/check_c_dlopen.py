# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_c_dlopen.py HOST LIBRARY TRAINER DATA: checks the example c_dlopen.

HOST loads LIBRARY with dlopen. The losses of HOST must equal those of TRAINER, which is linked with the library. HOST
must reject files that are not a library of the expected version.
"""
import csv
import pathlib
import subprocess
import sys
import tempfile

EPOCHS = "4"


def losses(path):
    with open(path, encoding="ascii") as file:
        return [row["shampoo_train_loss"] for row in csv.DictReader(file)]


def refusal(host, library):
    done = subprocess.run([host, "--library", library], capture_output=True, text=True, check=False)
    if done.returncode != 1 or done.stdout:
        raise SystemExit(f"{library} was not refused: {done}")
    return done.stderr


def compiled(folder, name, source):
    """Compile a C source to a shared library and return its path."""
    path = folder / name
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
    return path


def expect(text, *parts):
    for part in parts:
        if part not in text:
            raise SystemExit(f"expected {part!r} in {text!r}")


def main():
    host, library, trainer, data = sys.argv[1:]
    symbols = subprocess.run(["nm", "-D", host], capture_output=True, text=True, check=True).stdout
    if "shampoo_" in symbols:
        raise SystemExit("the host is linked with functions of the library")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ours, theirs = folder / "host.csv", folder / "trainer.csv"
        subprocess.run([host, "--library", library, "--data", data, "--epochs", EPOCHS, "--csv", ours],
                       stdout=subprocess.DEVNULL, check=True)
        subprocess.run([trainer, "--data", data, "--epochs", EPOCHS, "--csv", theirs],
                       stdout=subprocess.DEVNULL, check=True)
        if len(losses(ours)) != int(EPOCHS) + 1 or losses(ours) != losses(theirs):
            raise SystemExit(f"losses differ: {losses(ours)} and {losses(theirs)}")
        # This library returns a function table of version 0.2.3. A host may call only version() of such a table.
        source = """static int version(void) { return 203; }
static const struct { unsigned long struct_size; int (*version)(void); } table = {16, version};
const void* shampoo_get_api(void) { return &table; }"""
        other = compiled(folder, "other.so", source)
        expect(refusal(host, other), str(other), "0.2.3", "0.1.0")
        none = compiled(folder, "none.so", "int shampoo_version(void) { return 100; }")
        expect(refusal(host, none), str(none), "shampoo_get_api")
        expect(refusal(host, folder / "missing.so"), "missing.so", "--library")


if __name__ == "__main__":
    main()
