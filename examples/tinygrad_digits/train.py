# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on handwritten digits in tinygrad, with Shampoo and AdamW. README.md shows the results."""
from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path

from libshampoo.tinygrad import Shampoo
from network import Network
from tinygrad import Context, Tensor, TinyJit, nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_digits"))
from digits import TRAIN, batches, load_digits, read_options  # noqa: E402
from report import Curve, report, show_progress  # noqa: E402


def make_backward(net: Network, opt: nn.optim.Optimizer) -> Callable[[Tensor, Tensor], list[Tensor]]:
    """Return a compiled function that computes gradients in row-major order, so that Shampoo reads them in place."""

    @TinyJit
    def backward(images: Tensor, labels: Tensor) -> list[Tensor]:
        opt.zero_grad()
        net(images).sparse_categorical_crossentropy(labels).backward()
        return [param.grad.replace(param.grad.contiguous()).realize() for param in opt.params]

    return backward


def main() -> None:
    """Train with Shampoo and with AdamW, side by side on the same batches."""
    options = read_options(__doc__)
    images, labels = load_digits(options.data)
    nets = [Network(options.seed), Network(options.seed)]
    curves = [Curve("Shampoo" if options.preset == "shampoo" else options.preset), Curve("AdamW")]
    opts = [
        Shampoo(
            nn.state.get_state_dict(nets[0]),
            preset=options.preset,
            lr=options.lr,
            weight_decay=options.weight_decay,
        ),
        nn.optim.AdamW(nn.state.get_parameters(nets[1]), lr=options.lr, weight_decay=options.weight_decay),
    ]
    print(opts[0].optimizer)
    backwards = [make_backward(net, opt) for net, opt in zip(nets, opts)]
    make_steps = [opts[0].step, TinyJit(opts[1].step)]  # the step of Shampoo needs no JIT, because it calls the library

    def evaluate() -> None:
        for net, curve in zip(nets, curves):
            scores = [net(Tensor(part)) for part in (images[:TRAIN], images[TRAIN:])]
            curve.loss.append(scores[0].sparse_categorical_crossentropy(Tensor(labels[:TRAIN])).item())
            curve.accuracy.append(float((scores[1].argmax(axis=1).numpy() == labels[TRAIN:]).mean()))

    evaluate()
    for step, rows, ends_epoch in batches(options):
        show_progress(step, options.steps)
        lr = options.lr * 0.5 * (1 + math.cos(math.pi * step / options.steps))
        for backward, opt, make_step in zip(backwards, opts, make_steps):
            opt.lr.assign(Tensor([lr])).realize()
            backward(Tensor(images[rows]).realize(), Tensor(labels[rows]).realize())
            make_step()
        if ends_epoch:
            evaluate()

    report(curves, options.csv)
    print(f"\nShampoo computed {opts[0].optimizer.stats()['root_computed']} inverse roots")


if __name__ == "__main__":
    with Context(TRAINING=1, DEV="CPU"):
        main()
