# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The file of finished runs. Each line is a run: its complete settings, its result and its time."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def key_of(settings: dict[str, Any]) -> str:
    """Return a string that identifies a run. The string does not depend on the order of the settings."""
    return json.dumps(settings, sort_keys=True)


class Store:
    """Finished runs by their settings. A run is appended to the file when it has finished, so a killed benchmark can be
    continued."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, dict[str, Any]] = {}
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):  # the last line was cut off when the benchmark was killed
            os.truncate(path, len(whole))
        for line in whole.decode("utf-8").splitlines():
            record = json.loads(line)
            self.records[key_of(record["settings"])] = record

    def find(self, settings: dict[str, Any]) -> dict[str, Any] | None:
        """Return the record of a run, or None."""
        return self.records.get(key_of(settings))

    def add(self, settings: dict[str, Any], result: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Append a run to the file and return its record."""
        record = {"settings": settings, "result": result, "seconds": round(seconds, 3)}
        self.records[key_of(settings)] = record
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            if seconds > 1:  # after a short run, waiting for the disk may take longer than repeating the run
                os.fsync(file.fileno())
        return record
