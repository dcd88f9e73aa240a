# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on handwritten digits with Shampoo and with AdamW. README.md shows the results."""
from __future__ import annotations

import math

import libshampoo
import network
from adamw import AdamW
from digits import TRAIN, batches, load_digits, read_options
from report import Curve, report, show_progress


def main() -> None:
    """Train with Shampoo and with AdamW, side by side on the same batches."""
    options = read_options(__doc__)
    images, labels = load_digits(options.data)
    nets = [network.make(options.seed), network.make(options.seed)]
    curves = [Curve("Shampoo" if options.preset == "shampoo" else options.preset), Curve("AdamW")]
    opt = libshampoo.Optimizer(
        nets[0],
        preset=options.preset,
        lr=options.lr,
        weight_decay=options.weight_decay,
    )
    print(opt)
    adamw = AdamW(nets[1], options.lr, options.weight_decay)

    def evaluate() -> None:
        for net, curve in zip(nets, curves):
            curve.loss.append(network.evaluate(net, images[:TRAIN], labels[:TRAIN])[0])
            curve.accuracy.append(network.evaluate(net, images[TRAIN:], labels[TRAIN:])[1])

    evaluate()
    for step, rows, ends_epoch in batches(options):
        show_progress(step, options.steps)
        opt.lr = adamw.lr = options.lr * 0.5 * (1 + math.cos(math.pi * step / options.steps))
        opt.step(network.gradient(nets[0], images[rows], labels[rows])[1])
        adamw.step(network.gradient(nets[1], images[rows], labels[rows])[1])
        if ends_epoch:
            evaluate()

    report(curves, options.csv)
    computed = "inverse roots" if options.preset == "shampoo" else "inverse roots or eigenbases"
    print(f"\n{curves[0].name} computed {opt.stats()['root_computed']} {computed}")


if __name__ == "__main__":
    main()
