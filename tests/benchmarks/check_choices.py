# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks how the benchmarks choose learning rates and horizons (numbers of training steps), and how they compute times.

The benchmarks make these choices from tuning runs. Judging runs then give the results. Also checks that tuning runs and
judging runs have different seeds, and are evaluated on different files and images.
"""
import math
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import costs  # noqa: E402
import digits  # noqa: E402
import tuning  # noqa: E402
from corpus import Corpus, split_files  # noqa: E402
from sizes import SIZES  # noqa: E402

FACTOR = 2**0.5


def check_rates() -> None:
    """Check that a search tries the requested number of neighboring rates, and returns the best of them."""
    for tries in range(1, 12):
        for best in (-6, -3, 0, 1, 4, 20):
            asked: list[float] = []

            def loss(rate: float, best: int = best, asked: list[float] = asked) -> float:
                asked.append(rate)
                return (math.log(rate / 0.01) / math.log(FACTOR) - best) ** 2

            search = tuning.search_rate(loss, 0.01, tries)
            assert len(asked) == len(set(asked)) == len(search.losses) == tries, (tries, best)
            steps = [math.log(b / a) / math.log(FACTOR) for a, b in zip(sorted(asked), sorted(asked)[1:])]
            assert all(abs(step - 1) < 1e-3 for step in steps), steps
            assert search.losses[search.rate] == min(search.losses.values())
            assert search.is_at_end == (search.rate in (min(asked), max(asked))), (tries, best)
            if tries >= 2 * abs(best) + 3:
                assert search.rate == tuning.grid_rate(0.01, best) and not search.is_at_end, (tries, best)
    diverging = tuning.search_rate(lambda rate: math.inf if rate > 0.008 else 1 / rate, 0.01, 7)
    assert diverging.rate == tuning.grid_rate(0.01, -1) and not diverging.is_at_end
    assert tuning.search_rate(lambda rate: math.inf, 0.01, 3).is_at_end
    # smooth_best() finds the minimum of a parabola in the logarithm of the rate, even between two rates of the grid.
    bowl = {tuning.grid_rate(0.01, i): (i - 0.25) ** 2 for i in range(-2, 3)}
    assert abs(tuning.smooth_best(bowl) / (0.01 * FACTOR**0.25) - 1) < 1e-3
    assert tuning.smooth_best({0.1: 3.0, 0.2: 2.0}) == 0.2


def check_horizons() -> None:
    """Check that the first candidate horizon is the shortest horizon whose loss is at or below the target."""
    numbers = random.Random(1)
    for length in range(1, 20):
        ladder = [10 * (i + 1) for i in range(length)]
        for reached in range(length + 1):
            asked = []

            def loss(steps: int, reached: int = reached, asked: list[int] = asked) -> float:
                asked.append(steps)
                return 1.0 if steps >= 10 * (reached + 1) else 1.0 + numbers.random() + 1e-9

            found = tuning.candidate_horizons(loss, 1.0, ladder)
            assert found == ladder[reached : reached + 3], (length, reached, found)
            assert len(set(asked)) <= tuning.most_horizon_runs(ladder), (length, reached)
    assert tuning.candidate_horizons(lambda steps: math.inf, 1.0, [1, 2]) == []
    assert tuning.candidate_horizons(lambda steps: math.nan, 1.0, [1, 2]) == []


def check_seeds() -> None:
    """Check that tuning runs and judging runs have different seeds."""
    for size in SIZES.values():
        race = size.language_model
        assert not set(race.tuning_seeds) & {*race.target_seeds, *race.seeds}
        assert not set(race.target_seeds) & set(race.seeds)
        for part in (size.convolution, size.known_answers):
            assert not set(part.tuning_seeds) & set(part.seeds)
    full = SIZES["full"]
    assert len(full.language_model.target_seeds) == len(full.convolution.seeds) == 10
    assert len(full.language_model.seeds) == 5 and len(full.language_model.tuning_seeds) == 2


def check_files() -> None:
    """Check that each file is in exactly one part of the corpus, and that tuning and judging share no test image."""
    for count in (3, 4, 19, 20, 21, 700):
        files = [Path(f"{i:03}") for i in range(count)]
        parts = split_files(files)
        assert all(parts.values()) and sorted(sum(parts.values(), [])) == files, count
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{i}.txt") for i in range(5)]
        for i, path in enumerate(paths):
            path.write_text(f"file {i}")
        corpus = Corpus(Path(folder, "data"), paths)
        content = {name: path.read_text() for name, path in corpus.paths.items()}
        assert content == {"judging": "file 0", "tuning": "file 2", "training": "file 1\nfile 3\nfile 4"}, content
        assert corpus.description["training"]["files"] == 3
        images = digits.read_images()
        made = {name: path.read_bytes() for name, path in digits.write_parts(Path(folder)).items()}
        rows = {name: [body[12 + 65 * i : 77 + 65 * i] for i in range((len(body) - 12) // 65)]
                for name, body in made.items()}  # fmt: skip
        assert rows["tuning"][:300] == rows["judging"][:300] == images[:300]
        assert rows["tuning"][300:] == images[300:600] and rows["judging"][300:] == images[600:]


def check_costs() -> None:
    """Compare times of trainings, and crossings (see costs.crossing), with numbers that were computed by hand."""
    # The gradient of a batch of 1, 2 or 4 contexts (10, 20 or 40 tokens) takes 1, 3 or 7 ms.
    cost = {"model": {"context": 10}, "gradient_ms": 4.0, "gradients_ms": [[1, 1.0], [2, 3.0], [4, 7.0]],
            "methods": [{"name": "adamw", "update_ms_of_steps": [1.0] * 4},
                        {"name": "new", "update_ms_of_steps": [9.0, 9.0, 3.0, 3.0]}]}  # fmt: skip
    assert abs(costs.update_seconds(cost, "new", 2) - 0.018) < 1e-12
    assert abs(costs.update_seconds(cost, "new", 6) - 0.030) < 1e-12  # steps 5 and 6, not measured, count 3 ms each
    assert abs(costs.seconds(cost, "adamw", 10) - 0.050) < 1e-12
    assert abs(costs.seconds(cost, "adamw", 10, 15) - 0.030) < 1e-12  # by interpolation, 15 tokens take 2 ms
    race = {"methods": [{"name": "adamw", "reached": 10}, {"name": "new", "reached": 6}]}
    # By interpolation, a gradient of 30 tokens takes 5 ms, so both methods take 60 ms: 30 + 6 * 5 = 10 + 10 * 5.
    assert costs.crossing(cost, race, "new") == "30 tokens"
    # A method that needs 2 steps more, and whose updates take 4 ms less in total, wins if a gradient takes below 2 ms.
    cost["methods"][1]["update_ms_of_steps"] = [0.5] * 4
    race["methods"][1]["reached"] = 12
    assert costs.crossing(cost, race, "new") == "below 15 tokens"
    race["methods"][1]["reached"] = 11  # 4.5 ms less, 1 step more
    assert costs.crossing(cost, race, "new") == "below 28 tokens"
    race["methods"][1]["reached"] = 19  # 0.5 ms less, 9 steps more: the limit is below 1 ms, the least measured time
    assert costs.crossing(cost, race, "new") == "not from 10 tokens, the fewest measured"
    cost["methods"][1]["update_ms_of_steps"] = [0.1] * 4
    race["methods"][1]["reached"] = 11  # 8.9 ms less, 1 step more
    assert costs.crossing(cost, race, "new") == "up to 40 tokens, the most measured"
    race["methods"][1]["reached"] = None
    assert costs.crossing(cost, race, "new") == "never: target not reached"


check_rates()
check_horizons()
check_seeds()
check_files()
check_costs()
