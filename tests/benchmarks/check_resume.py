# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that an interrupted benchmark continues where it stopped. fake_trainer.py replaces the trainers.

A benchmark that is killed repeatedly must repeat only the runs during which it was killed, and must end with the
results of a benchmark that was not killed. The number of steps to the target loss must follow from the formula of
fake_trainer.py.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = ("train_language_model", "train_convolution", "solve_problem")
sys.path.insert(0, str(ROOT / "benchmarks"))
import report  # noqa: E402
from store import Store  # noqa: E402


def make_trainers(folder: Path) -> Path:
    """Write copies of fake_trainer.py with the names of the trainers into a folder."""
    folder.mkdir()
    for name in PROGRAMS:
        source = (HERE / "fake_trainer.py").read_text(encoding="utf-8")
        (folder / name).write_text(f"#!{sys.executable} -S\n{source}", encoding="utf-8")
        (folder / name).chmod(0o755)
    return folder


def run(trainers: Path, out: Path, log: Path, texts: list[Path], kill_after: int = 0, *more: str) -> int:
    """Run the benchmarks with FAKE_KILL_AFTER (see fake_trainer.py) set to kill_after. Return the exit status."""
    environment = {**os.environ, "FAKE_LOG": str(log), "FAKE_KILL_AFTER": str(kill_after)}
    command = [sys.executable, str(ROOT / "benchmarks" / "measure.py"), "--trainers", str(trainers), "--size", "smoke",
               "--out", str(out), *more, "--text", *map(str, texts)]  # fmt: skip
    return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode


def lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def results(out: Path) -> dict[str, object]:
    """Return all results, pictures and tables."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((out / "smoke" / "results").iterdir())}


def check_results(found: dict[str, object]) -> None:
    """Compare the results with the formula of fake_trainer.py."""
    race = json.loads(found["language_model.json"])
    reached = {row["name"]: row["reached"] for row in race["methods"]}
    assert reached == {"adamw": 10, "muon": 5, "shampoo": None}, reached
    muon = race["methods"][1]
    assert muon["horizons"][0]["p"] < 0.05 and muon["tries"] == 2, muon
    assert "not reached" in found["language_model.md"], found["language_model.md"]
    cost = json.loads(found["cost.json"])
    assert [round(row["update_ms"], 6) for row in cost["methods"]] == [1.0, 0.4, 2.0], cost
    # adamw needs 10 gradients of 4 ms and 10 updates of 1 ms; muon needs 5 gradients of 4 ms and 5 updates of 0.4 ms.
    assert "0.1 (1.00)" in found["language_model.md"] and "0.0 (0.44)" in found["language_model.md"]
    assert all(f"{name}.md" in found for name in report.tables.TABLES)


def check_store(folder: Path) -> None:
    """Check that a store drops an incomplete line, and that the order of settings does not matter for finding a run."""
    path = folder / "store" / "runs.jsonl"
    store = Store(path)
    store.add({"a": 1, "b": [2]}, {"loss": 3.0}, 0.5)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"settings": {"a": 2}, "res')
    again = Store(path)
    assert list(again.records.values()) == list(store.records.values())
    assert again.find({"b": [2], "a": 1})["result"] == {"loss": 3.0} and again.find({"a": 2}) is None
    again.add({"a": 2}, {}, 0.1)
    assert len(Store(path).records) == 2


def check_pages() -> None:
    """Check that tables and pictures are written to the sections of a page."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cost.md").write_text("| x |\n", encoding="utf-8")
        page = ("a\n<!-- BENCHMARK cost -->\nold\n<!-- END BENCHMARK -->\nb <!-- BENCHMARK transfer -->\n"
                "<!-- END BENCHMARK -->\n")  # fmt: skip
        (Path(folder) / "cost.svg").write_text("<svg/>", encoding="utf-8")
        pages = Path(folder, "pages")
        text = report.filled(page, Path(folder), pages)
        assert "a\n<!-- BENCHMARK cost -->\n| x |\n\n![cost](../cost.svg)\n" in text and "\nold\n" not in text, text
        assert "Not measured yet: `bash benchmarks/run.sh transfer`" in text, text
        assert report.filled(text, Path(folder), pages) == text


def main() -> None:
    """Run all checks."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_store(folder)
        check_pages()
        trainers = make_trainers(folder / "trainers")
        texts = [folder / f"{i}.txt" for i in range(3)]
        for path in texts:
            path.write_text(f"text {path.name}", encoding="utf-8")
        assert run(trainers, folder / "whole", folder / "whole.log", texts) == 0
        expected, whole = results(folder / "whole"), lines(folder / "whole.log")
        check_results(expected)
        assert run(trainers, folder / "whole", folder / "none.log", texts) == 0
        assert lines(folder / "none.log") == [], "a finished benchmark made runs again"
        assert results(folder / "whole") == expected

        log, kills = folder / "killed.log", 0
        for after in (1, 2, 9, len(whole) // 2, len(whole) - 5):
            kills += run(trainers, folder / "killed", log, texts, after) == -signal.SIGKILL
        assert kills == 5, kills
        assert run(trainers, folder / "killed", log, texts) == 0
        made = lines(log)
        same = [line.replace(str(folder / "killed"), str(folder / "whole")) for line in made]
        assert sorted(set(same)) == sorted(set(whole)), "the killed benchmark made other runs"
        # Each kill ends the runs in progress, at most one per processor. These runs are made again.
        at_once = len(os.sched_getaffinity(0))
        assert len(whole) + kills <= len(made) <= len(whole) + kills * at_once, (len(made), len(whole), kills)
        assert results(folder / "killed") == expected

        # --check repeats stored runs, and fails if a loss differs from the stored one.
        assert run(trainers, folder / "whole", folder / "again.log", texts, 0, "--check", "2") == 0
        assert len(lines(folder / "again.log")) > 2
        store = folder / "whole" / "smoke" / "runs.jsonl"
        store.write_text(store.read_text(encoding="utf-8").replace('"validation_loss": ', '"validation_loss": 1'))
        assert run(trainers, folder / "whole", folder / "again.log", texts, 0, "--check", "2") == 1
        print(f"{len(whole)} runs; after {kills} kills, {len(made) - len(whole)} runs were repeated")


if __name__ == "__main__":
    main()
