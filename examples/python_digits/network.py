# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Computes outputs, cross entropy and gradients of a network in NumPy: layers of sizes 64-128-64-10, with tanh."""
from __future__ import annotations

import numpy as np

SIZES = (64, 128, 64, 10)

Params = dict[str, np.ndarray]


def make(seed: int) -> Params:
    """Return initial parameters: weights are drawn by Glorot's rule, and biases are 0."""
    random = np.random.default_rng(seed)
    params: Params = {}
    for layer, (inputs, outputs) in enumerate(zip(SIZES, SIZES[1:]), 1):
        bound = np.sqrt(6 / (inputs + outputs))
        params[f"W{layer}"] = random.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)
        params[f"b{layer}"] = np.zeros(outputs, np.float32)
    return params


def forward(params: Params, images: np.ndarray) -> list[np.ndarray]:
    """Return four arrays: the images, and the outputs of the three layers."""
    layers = [images]
    for layer in (1, 2, 3):
        scores = layers[-1] @ params[f"W{layer}"].T + params[f"b{layer}"]
        layers.append(np.tanh(scores) if layer < 3 else scores)
    return layers


def loss_of(scores: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean cross entropy, and its gradient with respect to the scores."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    shares = np.exp(shifted)
    sums = shares.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float((np.log(sums[:, 0]) - shifted[rows, labels]).mean())
    shares /= sums
    shares[rows, labels] -= 1
    return loss, shares / np.float32(len(labels))


def gradient(params: Params, images: np.ndarray, labels: np.ndarray) -> tuple[float, Params]:
    """Return the mean loss, and its gradient with respect to each parameter."""
    layers = forward(params, images)
    loss, back = loss_of(layers[3], labels)
    grads: Params = {}
    for layer in (3, 2, 1):
        grads[f"W{layer}"], grads[f"b{layer}"] = back.T @ layers[layer - 1], back.sum(axis=0)
        if layer > 1:
            back = (back @ params[f"W{layer}"]) * (1 - layers[layer - 1] ** 2)
    return loss, grads


def evaluate(params: Params, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return the mean loss, and the fraction of the images that are classified correctly."""
    scores = forward(params, images)[3]
    return loss_of(scores, labels)[0], float((scores.argmax(axis=1) == labels).mean())
