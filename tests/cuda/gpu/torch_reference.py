#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Times the steps of Shampoo in PyTorch, to compare these times with those of shampoo_bench for the same shapes.

    torch_reference.py [--device cuda] [--block 1024] [--shapes 768x2304,768] [--runs 5]

The program updates one block at a time, without batched calls, as optimizers in Python usually do. It computes inverse
roots with torch.linalg.eigh, and uses Adam grafting without bias corrections. An ordinary step computes no inverse
roots. Without --shapes, the shapes are those of GPT-2 124M.
"""
import argparse
import time
from collections.abc import Callable

import torch

EPSILON = 1e-12


def gpt2() -> list[tuple[int, ...]]:
    width = 768
    shapes: list[tuple[int, ...]] = [(50257, width), (1024, width)]
    for _ in range(12):
        shapes += [(width,), (width,)] * 2
        for rows, columns in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)):
            shapes += [(rows, columns), (columns,)]
    return shapes + [(width,), (width,)]


class Block:
    """A block of a parameter, with the states of Shampoo and of Adam grafting."""

    def __init__(self, gradient: torch.Tensor) -> None:
        self.gradient = gradient
        self.factors = [torch.eye(d, device=gradient.device) for d in gradient.shape]
        self.roots = [torch.eye(d, device=gradient.device) for d in gradient.shape]
        self.filtered, self.square, self.param = (torch.zeros_like(gradient) for _ in range(3))

    def step(self, with_roots: bool) -> None:
        order = self.gradient.dim()
        for dim, factor in enumerate(self.factors):
            axes = [k for k in range(order) if k != dim]
            factor.mul_(0.999).add_(torch.tensordot(self.gradient, self.gradient, dims=(axes, axes)), alpha=0.001)
        if with_roots:
            for dim, factor in enumerate(self.factors):
                values, vectors = torch.linalg.eigh(factor)
                powers = (values.clamp(min=0) + EPSILON).pow(-1 / (2 * order))
                self.roots[dim] = (vectors * powers) @ vectors.mT
        self.filtered.mul_(0.9).add_(self.gradient, alpha=0.1)
        self.square.mul_(0.999).addcmul_(self.gradient, self.gradient, value=0.001)
        direction = self.filtered
        for root in self.roots:
            direction = torch.tensordot(direction, root, dims=([0], [0]))
        grafted = self.filtered / (self.square.sqrt() + 1e-8)
        self.param.sub_(direction * (1e-3 * grafted.norm() / (direction.norm() + 1e-30)))


def blocks_of(shape: tuple[int, ...], size: int, device: str) -> list[Block]:
    tensors = [torch.randn(shape, device=device) * 0.01]
    for dim in range(len(shape)):
        tensors = [piece for tensor in tensors for piece in tensor.split(size, dim)]
    return [Block(tensor.contiguous()) for tensor in tensors]


def shortest(runs: int, wait: Callable[[], None], step: Callable[[], None]) -> float:
    times = []
    for _ in range(runs + 1):
        wait()
        start = time.perf_counter()
        step()
        wait()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--block", type=int, default=1024)
    parser.add_argument("--shapes", default="")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes.split(",") if shape] or gpt2()
    wait: Callable[[], None] = torch.cuda.synchronize if options.device == "cuda" else (lambda: None)
    print(f"torch {torch.__version__}, {options.device}, blocks of {options.block}")
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        blocks = [block for shape in shapes for block in blocks_of(shape, options.block, options.device)]

        def step(with_roots: bool) -> None:
            for block in blocks:
                block.step(with_roots)

        ordinary = shortest(options.runs, wait, lambda: step(False))
        print(f"{'TF32' if tf32 else 'float32'}: {len(blocks)} blocks, ordinary step {1e3 * ordinary:.3f} ms", flush=True)
        if not tf32:
            print(f"step with roots {1e3 * shortest(1, wait, lambda: step(True)):.3f} ms", flush=True)


if __name__ == "__main__":
    main()
