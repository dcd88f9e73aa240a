# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""A network 64-128-64-10 with tanh in tinygrad."""
from __future__ import annotations

from tinygrad import Tensor, nn


class Network:
    """The network. Weights are drawn by Glorot's rule; biases are 0."""

    def __init__(self, seed: int) -> None:
        Tensor.manual_seed(seed)
        self.first, self.second, self.last = nn.Linear(64, 128), nn.Linear(128, 64), nn.Linear(64, 10)
        for layer in (self.first, self.second, self.last):
            layer.weight = Tensor.glorot_uniform(*layer.weight.shape)
            layer.bias = Tensor.zeros(*layer.bias.shape)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the scores of the ten digits."""
        return self.last(self.second(self.first(images).tanh()).tanh())
