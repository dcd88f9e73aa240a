# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The runs of docs/ablation.md: configurations of examples/c_conv, grids of learning rates, choice of the best rate."""
import math
import statistics
from typing import NamedTuple

SEARCH_SEEDS = (101, 102)  # for the search for the best learning rate
SEEDS = (1, 2, 3, 4, 5)  # for the runs with the best learning rate
# Learning rates are 10^(k/4) for integers k: 0.01, 0.0178, 0.0316, 0.0562, 0.1, ...
RATES_PER_DECADE = 4
HALF_GRID = 2  # number of points of the first grid on each side of the usual rate
MOST_WIDENING = 8  # largest number of points that the search adds to the grid on each side
EPOCHS = 10
EVALUATE_EVERY = 5  # steps
WEIGHT_DECAY = "1e-4"


class Config(NamedTuple):
    group: str
    name: str
    optimizer: str
    settings: tuple[str, ...]  # keys of libshampoo in addition to BASE
    usual_rate: int  # the k of the learning rate 10^(k/4) in the middle of the first grid

    @property
    def label(self) -> str:
        return f"{self.group}: {self.name}" if self.group else self.name


class Run(NamedTuple):
    config: Config
    rate: int  # the k of the learning rate
    seed: int


# Explicit values, so that new defaults of the library do not change these runs.
BASE = ("preset=shampoo_2024", "initial_inverse=identity", "beta1=0.9", "beta2=0.99", "epsilon=1e-6", "grafting=adam",
        "precondition_frequency=5", "max_preconditioner_dim=288", "use_merge_dims=true", "momentum=0")


def shampoo(group: str, name: str, *settings: str, usual_rate: int = -6) -> Config:
    return Config(group, name, "shampoo", settings, usual_rate)


CONFIGS = (
    shampoo("", "Shampoo, base"),
    shampoo("merging of dims", "off", "use_merge_dims=false"),
    shampoo("grafting", "none", "grafting=none"),
    shampoo("grafting", "SGD", "grafting=sgd", usual_rate=0),
    shampoo("grafting", "Adagrad", "grafting=adagrad", usual_rate=-4),
    shampoo("grafting", "RMSprop", "grafting=rmsprop"),
    shampoo("frequency of roots", "1", "precondition_frequency=1"),
    shampoo("frequency of roots", "20", "precondition_frequency=20"),
    shampoo("frequency of roots", "50", "precondition_frequency=50"),
    shampoo("largest block", "16", "max_preconditioner_dim=16"),
    shampoo("largest block", "64", "max_preconditioner_dim=64"),
    shampoo("largest block", "1024", "max_preconditioner_dim=1024"),
    shampoo("beta1 0", "without momentum", "beta1=0"),
    shampoo("beta1 0", "momentum 0.9", "beta1=0", "momentum=0.9", usual_rate=-10),
    shampoo("beta1 0", "momentum 0.9, Nesterov", "beta1=0", "momentum=0.9", "use_nesterov=true", usual_rate=-10),
    Config("", "SGD, momentum 0.9, Nesterov", "sgd", (), -4),
    Config("", "AdamW", "adamw", (), -7),
)


def rate_value(index: int) -> str:
    return f"{10**(index / RATES_PER_DECADE):.4g}"


def arguments(run: Run) -> list[str]:
    """Returns the arguments of train_conv, which also identify a run."""
    listed = ["--optimizer", run.config.optimizer, "--lr", rate_value(run.rate), "--seed", str(run.seed), "--epochs",
              str(EPOCHS), "--weight-decay", WEIGHT_DECAY]
    if run.seed in SEEDS:
        listed += ["--evaluate-every", str(EVALUATE_EVERY)]
    else:
        listed += ["--evaluate-every", "1000000"]  # evaluate only at the end
    if run.config.optimizer == "shampoo":
        for setting in BASE + run.config.settings:
            listed += ["--set", setting]
    return listed


def key(run: Run) -> str:
    return " ".join(arguments(run))


def final_loss(result: dict) -> float:
    """Returns the loss at the end of a run, or infinity if the run diverged."""
    loss = result["looks"][-1][3]
    return math.inf if result["diverged"] or not math.isfinite(loss) else loss


def choose_rate(config: Config, results: dict[str, dict]) -> tuple[int, list[Run]]:
    """Returns the k of the best learning rate 10^(k/4), and an empty list. If runs of the search are missing, returns
    the k of the usual rate, and the missing runs.
    """
    low, high = config.usual_rate - HALF_GRID, config.usual_rate + HALF_GRID
    while True:
        missing = [run for rate in range(low, high + 1) for run in (Run(config, rate, seed) for seed in SEARCH_SEEDS)
                   if key(run) not in results]
        if missing:
            return config.usual_rate, missing
        medians = {rate: statistics.median(final_loss(results[key(Run(config, rate, seed))]) for seed in SEARCH_SEEDS)
                   for rate in range(low, high + 1)}
        best = min(medians, key=lambda rate: (medians[rate], rate))
        if best == low and low > config.usual_rate - HALF_GRID - MOST_WIDENING:
            low -= 1
        elif best == high and high < config.usual_rate + HALF_GRID + MOST_WIDENING:
            high += 1
        else:
            return best, []
