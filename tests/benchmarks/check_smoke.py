# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_smoke.py TRAINERS: runs all benchmark parts in very small sizes, with the trainers in the folder TRAINERS.

Checks that all parts have results and a table, and that exactly the parts in pictures.PICTURES have a picture. Starts
the benchmarks again, and checks that no runs are added. Repeats some runs, and checks that their losses are unchanged.
"""
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import pictures  # noqa: E402
import tables  # noqa: E402
from sizes import SIZES  # noqa: E402


def main() -> None:
    """Run the benchmarks and check what they write."""
    trainers, size = sys.argv[1], "smoke"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(ROOT / "benchmarks" / "measure.py"), "--trainers", trainers, "--size", size,
                   "--out", folder]  # fmt: skip
        subprocess.run(command, check=True)
        runs = Path(folder, size, "runs.jsonl").read_text(encoding="utf-8")
        results = Path(folder, size, "results")
        for part in tables.TABLES:
            summary = json.loads((results / f"{part}.json").read_text(encoding="utf-8"))
            assert summary["size"] == size and summary["commit"] and summary["processor"], part
            assert (results / f"{part}.md").read_text(encoding="utf-8").startswith("| "), part
            assert (results / f"{part}.svg").exists() == (part in pictures.PICTURES), part
        race = json.loads((results / "language_model.json").read_text(encoding="utf-8"))
        losses = {row["name"]: row["at_t0"]["mean"] for row in race["methods"]}
        assert list(losses) == list(SIZES[size].language_model.methods), losses
        # The loss is log(98) if all 98 tokens have equal probabilities. Every method must reach a lower loss.
        assert all(loss is not None and loss < math.log(98) for loss in losses.values()), losses

        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        assert Path(folder, size, "runs.jsonl").read_text(encoding="utf-8") == runs, "a second start added runs"
        subprocess.run([*command, "--check", "2"], check=True)


if __name__ == "__main__":
    main()
