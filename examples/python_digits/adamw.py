# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""AdamW, to which Shampoo is compared. Written with NumPy."""
from __future__ import annotations

import numpy as np


class AdamW:
    """AdamW with beta1 0.9, beta2 0.999, epsilon 1e-8 and decoupled weight decay."""

    def __init__(self, params: dict[str, np.ndarray], lr: float, weight_decay: float) -> None:
        self.params, self.lr, self.weight_decay, self.steps = params, lr, weight_decay, 0
        # Moving averages of the gradient and of its square.
        self.first = {name: np.zeros_like(value) for name, value in params.items()}
        self.second = {name: np.zeros_like(value) for name, value in params.items()}

    def step(self, grads: dict[str, np.ndarray]) -> None:
        """Update all parameters in place."""
        self.steps += 1
        correction1, correction2 = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        for name, value in self.params.items():
            first, second, grad = self.first[name], self.second[name], grads[name]
            first += np.float32(0.1) * (grad - first)
            second += np.float32(0.001) * (grad * grad - second)
            value *= np.float32(1 - self.lr * self.weight_decay)
            denominator = np.sqrt(second / np.float32(correction2)) + np.float32(1e-8)
            value -= np.float32(self.lr / correction1) * first / denominator
