# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on handwritten digits in tinygrad, with Shampoo and with AdamW; README.md tells the result."""
from __future__ import annotations

import argparse
import math
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from network import Network
from shampoo.tinygrad import Shampoo
from tinygrad import Context, Tensor, TinyJit, nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_digits"))
from report import Curve, show_progress, show_table, write_csv, write_svg  # noqa: E402

TRAIN = 1437  # four fifths of the 1797 images; the others are for the test


def load_digits(path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Give images with pixels from 0 to 1, and labels: of a file as examples/c_mlp has it, or of scikit-learn."""
    if path is not None:
        text = Path(path).read_bytes()
        train, test = struct.unpack_from("<HH", text, 8)
        rows = np.frombuffer(text, np.uint8, (train + test) * 65, 12).reshape(-1, 65)
    else:
        from sklearn import datasets

        digits = datasets.load_digits()
        rows = np.concatenate([digits.data, digits.target[:, None]], axis=1).astype(np.uint8)
        rows = rows[np.random.default_rng(1).permutation(len(rows))]
    return rows[:, :64].astype(np.float32) / np.float32(16), rows[:, 64].astype(np.int32)


def make_backward(net: Network, opt: nn.optim.Optimizer) -> Callable[[Tensor, Tensor], list[Tensor]]:
    """Make the compiled half of a step: gradients in row-major order, which are read where they are."""

    @TinyJit
    def backward(images: Tensor, labels: Tensor) -> list[Tensor]:
        opt.zero_grad()
        net(images).sparse_categorical_crossentropy(labels).backward()
        return [param.grad.replace(param.grad.contiguous()).realize() for param in opt.params]

    return backward


def main() -> None:
    """Train both, side by side on the same batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a file with the images; without it they come from scikit-learn")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", default="curves.csv", help="where the numbers go; empty: nowhere")
    parser.add_argument("--svg", default="curves.svg", help="where the picture goes; empty: nowhere")
    options = parser.parse_args()

    images, labels = load_digits(options.data)
    nets = [Network(options.seed), Network(options.seed)]
    curves = [Curve("Shampoo"), Curve("AdamW")]
    opts = [
        Shampoo(
            nn.state.get_state_dict(nets[0]),
            lr=options.lr,
            weight_decay=options.weight_decay,
            beta2=0.99,
            epsilon=1e-6,
            grafting="adam",
            precondition_frequency=10,
            max_preconditioner_dim=128,
        ),
        nn.optim.AdamW(nn.state.get_parameters(nets[1]), lr=options.lr, weight_decay=options.weight_decay),
    ]
    print(opts[0].optimizer)
    backwards = [make_backward(net, opt) for net, opt in zip(nets, opts)]
    make_steps = [opts[0].step, TinyJit(opts[1].step)]  # a step of Shampoo is compiled already

    def evaluate() -> None:
        for net, curve in zip(nets, curves):
            scores = [net(Tensor(part)) for part in (images[:TRAIN], images[TRAIN:])]
            curve.loss.append(scores[0].sparse_categorical_crossentropy(Tensor(labels[:TRAIN])).item())
            curve.accuracy.append(float((scores[1].argmax(axis=1).numpy() == labels[TRAIN:]).mean()))

    random = np.random.default_rng(options.seed)
    per_epoch = TRAIN // options.batch
    steps = options.epochs * per_epoch
    evaluate()
    for step in range(steps):
        show_progress(step, steps)
        if step % per_epoch == 0:
            order = random.permutation(TRAIN)
        rows = order[step % per_epoch * options.batch :][: options.batch]
        lr = options.lr * 0.5 * (1 + math.cos(math.pi * step / steps))
        for backward, opt, make_step in zip(backwards, opts, make_steps):
            opt.lr.assign(Tensor([lr])).realize()
            backward(Tensor(images[rows]).realize(), Tensor(labels[rows]).realize())
            make_step()
        if (step + 1) % per_epoch == 0:
            evaluate()

    show_table(curves)
    print(f"\nShampoo computed {opts[0].optimizer.stats()['root_computed']} inverse roots")
    if options.csv:
        write_csv(options.csv, curves)
    if options.svg:
        write_svg(options.svg, curves)


if __name__ == "__main__":
    with Context(TRAINING=1, DEV="CPU"):
        main()
