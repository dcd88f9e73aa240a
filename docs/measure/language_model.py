#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares optimizers on a byte-level GPT that learns the sources of Python's standard library.

    python3 docs/measure/language_model.py run --results out/lm.jsonl --method muon --steps 300
    python3 docs/measure/language_model.py run --results out/lm.jsonl --method shampoo --set beta2=0.95 --steps 300
    python3 docs/measure/language_model.py run --results out/lm.jsonl --method soap --soap soap.py --steps 300
    python3 docs/measure/language_model.py table --results out/lm.jsonl

The method of --method trains the matrices of the transformer blocks. AdamW trains embeddings, head and vectors. The
command "run" first searches for the method's best learning rate with the tuning seeds. Neighboring rates differ by a
factor of sqrt(2). The search ends when neither neighbor of the best rate has a lower loss. The command then trains with
the best rate and the seeds of --seeds. Each training is a line of JSON in the file of results. Trainings that are in
the file are not repeated. A training of 300 steps takes 10 to 20 s on an idle core. Needs PyTorch 2.9. The method
"shampoo" needs this library's package, and "soap" needs --soap.
"""
import argparse
import ast
import json
import math
import pathlib
import statistics
import sys
from typing import Any

import lm_data
import lm_methods
import lm_table
import lm_train
import torch


def grid_rate(usual: float, index: int) -> float:
    return float(f"{usual * 2**(index / 2):.4g}")


def parse_setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"setting without a value: {text}; expected key=value")
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a string, such as adam


class Results:
    """The file of results. loss() trains only the runs that the file does not contain."""

    def __init__(self, options: argparse.Namespace):
        self.path, self.options = pathlib.Path(options.results), options
        self.known: dict[tuple[Any, ...], dict] = {}
        self.texts: tuple[torch.Tensor, torch.Tensor] | None = None
        for record in lm_table.read(self.path) if self.path.exists() else []:
            self.known[lm_train.Run(**record["run"]).key()] = record["result"]

    def loss(self, rate: float, seed: int) -> float:
        options = self.options
        run = lm_train.Run(options.method, dict(options.set), options.steps, rate, seed, options.rest_rate,
                           options.batch, options.context, options.layers, options.width, options.heads)
        if run.key() not in self.known:
            self.texts = self.texts or lm_data.read_text(run.context)
            self.add(run, lm_train.train(run, options.soap, options.log_every, self.texts))
        return self.known[run.key()].get("loss", math.inf)

    def add(self, run: lm_train.Run, result: dict) -> None:
        self.known[run.key()] = result
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"run": run._asdict(), "result": result}) + "\n")
        print(f"{lm_table.label(run._asdict())}: rate {run.rate}, seed {run.seed}: {result.get('loss', 'diverged')}",
              flush=True)

    def tuning_loss(self, usual: float, index: int) -> float:
        return statistics.fmean(self.loss(grid_rate(usual, index), seed) for seed in self.options.tuning_seeds)

    def search(self, usual: float) -> float:
        """Returns the best rate. Starts at the usual rate and moves in each direction as long as the loss decreases."""
        best, found = 0, self.tuning_loss(usual, 0)
        for direction in (1, -1):
            while self.tuning_loss(usual, best + direction) < found:
                best += direction
                found = self.tuning_loss(usual, best)
        return grid_rate(usual, best)


def measure(options: argparse.Namespace) -> None:
    results = Results(options)
    usual = options.rate or lm_methods.METHODS[options.method].usual_rate
    rate = usual if options.no_search else results.search(usual)
    losses = [results.loss(rate, seed) for seed in options.seeds]
    if losses:
        print(f"mean loss of seeds {', '.join(map(str, options.seeds))} at rate {rate}: {statistics.fmean(losses):.4f}")


def seeds(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="search for the best rate of a method, then train with this rate")
    run.add_argument("--method", choices=list(lm_methods.METHODS), required=True,
                     help="prototype: Shampoo in PyTorch code, without libshampoo")
    run.add_argument("--set", action="append", type=parse_setting, default=[], metavar="KEY=VALUE",
                     help="a key of the library or a setting of the method")
    run.add_argument("--soap", default="", help="soap.py of SOAP's authors (nikhilvyas/SOAP)")
    run.add_argument("--rate", type=float, help="rate at which the search starts")
    run.add_argument("--no-search", action="store_true", help="use --rate without a search")
    run.add_argument("--rest-rate", type=float, default=0.016, help="rate of AdamW for embeddings, head and vectors")
    run.add_argument("--tuning-seeds", type=seeds, default=[101, 102])
    run.add_argument("--seeds", type=seeds, default=[1, 2, 3])
    run.add_argument("--threads", type=int, default=1)
    run.add_argument("--log-every", type=int, default=50,
                     help="number of steps over which each training loss in the results is averaged")
    for name, default in (("steps", 300), ("batch", 8), ("context", 64), ("layers", 4), ("width", 96), ("heads", 4)):
        run.add_argument(f"--{name}", type=int, default=default)
    table = commands.add_parser("table", help="print a table in Markdown")
    table.add_argument("--tuning-seeds", type=seeds, default=[101, 102])
    for command in (run, table):
        command.add_argument("--results", required=True, help="file of JSON lines")
    options = parser.parse_args()
    if options.command == "table":
        lm_table.show(pathlib.Path(options.results), options.tuning_seeds)
        return
    torch.set_num_threads(options.threads)
    measure(options)


if __name__ == "__main__":
    sys.exit(main())
