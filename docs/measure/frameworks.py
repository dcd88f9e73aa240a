# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares the time of a training step with Shampoo and with Adam, for each installed framework.

    PYTHONPATH=build/release/bindings/python python3 docs/measure/frameworks.py [FRAMEWORK...]

The model is a network 64-128-64-10 on random data, in batches of 64. JAX, Flax and Equinox use the Adam of Optax.
TensorFlow uses the Adam of Keras. NumPy uses the class NumpyAdam below. All other frameworks use their own Adam. After
300 warm-up steps of each optimizer, there are 9 rounds. A round has 50 steps with Shampoo, then 50 steps with Adam. It
yields the mean time of a step (gradient and update) for each optimizer, and the ratio of Shampoo's time to Adam's. The
table has the medians over the rounds.
"""
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import libshampoo

SIZES = (64, 128, 64, 10)
RATE = 0.003
WARM_UP, ROUNDS, STEPS = 300, 9, 50

random = np.random.default_rng(0)
X = random.standard_normal((64, SIZES[0])).astype(np.float32)
Y = random.standard_normal((64, SIZES[-1])).astype(np.float32)


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    found = {}
    for i, (m, n) in enumerate(zip(SIZES, SIZES[1:])):
        found[f"w{i}"] = random.standard_normal((m, n)).astype(np.float32) / np.float32(np.sqrt(m))
        found[f"b{i}"] = np.zeros(n, np.float32)
    return found


class NumpyAdam:
    """Adam on NumPy arrays, which it updates in place."""

    def __init__(self, params: dict[str, np.ndarray]) -> None:
        self.params, self.count = params, 0
        self.m, self.v = ({name: np.zeros_like(p) for name, p in params.items()} for _ in range(2))

    def step(self, grads: dict[str, np.ndarray]) -> None:
        self.count += 1
        rate = RATE * np.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
        for name, grad in grads.items():
            m, v = self.m[name], self.v[name]
            m += 0.1 * (grad - m)
            v += 0.001 * (grad * grad - v)
            self.params[name] -= np.float32(rate) * m / (np.sqrt(v) + 1e-8)


def run_numpy(shampoo: bool) -> Callable[[], None]:
    params = weights()
    opt: Any = libshampoo.Optimizer(params, lr=RATE) if shampoo else NumpyAdam(params)

    def step() -> None:
        inputs, grads = [X], {}
        for i in range(3):
            out = inputs[-1] @ params[f"w{i}"] + params[f"b{i}"]
            inputs.append(np.maximum(out, 0) if i < 2 else out)
        error = 2 * (inputs.pop() - Y) / np.float32(Y.size)
        for i in (2, 1, 0):
            grads[f"w{i}"], grads[f"b{i}"] = inputs[i].T @ error, error.sum(0)
            error = (error @ params[f"w{i}"].T) * (inputs[i] > 0)
        opt.step(grads)

    return step


def run_jax(shampoo: bool) -> Callable[[], None]:
    import jax
    import jax.numpy as jnp
    import optax

    import libshampoo.jax

    tx = libshampoo.jax.shampoo(RATE) if shampoo else optax.adam(RATE)
    carried = [{name: jnp.asarray(value) for name, value in weights().items()}]
    carried.append(tx.init(carried[0]))

    def loss(params: Any) -> Any:
        out = jnp.asarray(X)
        for i in range(3):
            out = out @ params[f"w{i}"] + params[f"b{i}"]
            out = jax.nn.relu(out) if i < 2 else out
        return jnp.mean((out - Y) ** 2)

    def update(params: Any, state: Any) -> Any:
        updates, state = tx.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    compiled = jax.jit(update, donate_argnums=(0, 1))

    def step() -> None:
        carried[:] = compiled(*carried)
        jax.block_until_ready(carried)

    return step


def run_flax(shampoo: bool) -> Callable[[], None]:
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    import libshampoo.jax

    layers = [nnx.Linear(m, n, rngs=nnx.Rngs(0)) for m, n in zip(SIZES, SIZES[1:])]
    model = nnx.Sequential(layers[0], nnx.relu, layers[1], nnx.relu, layers[2])
    tx = libshampoo.jax.shampoo(RATE) if shampoo else optax.adam(RATE)
    opt = nnx.Optimizer(model, tx, wrt=nnx.Param)

    @nnx.jit
    def update(model: Any, opt: Any) -> None:
        opt.update(model, nnx.grad(lambda m: jnp.mean((m(X) - Y) ** 2))(model))

    def step() -> None:
        update(model, opt)
        jax.block_until_ready(nnx.state(model))

    return step


def run_equinox(shampoo: bool) -> Callable[[], None]:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import optax

    import libshampoo.jax

    keys = jax.random.split(jax.random.key(0), 3)
    model = eqx.nn.Sequential([eqx.nn.Linear(64, 128, key=keys[0]), eqx.nn.Lambda(jax.nn.relu),
                               eqx.nn.Linear(128, 64, key=keys[1]), eqx.nn.Lambda(jax.nn.relu),
                               eqx.nn.Linear(64, 10, key=keys[2])])
    tx = libshampoo.jax.shampoo(RATE) if shampoo else optax.adam(RATE)
    carried = [model, tx.init(eqx.filter(model, eqx.is_inexact_array))]

    @eqx.filter_jit(donate="all")
    def update(model: Any, state: Any) -> Any:
        grads = eqx.filter_grad(lambda m: jnp.mean((jax.vmap(m)(X) - Y) ** 2))(model)
        updates, state = tx.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state

    def step() -> None:
        carried[:] = update(*carried)
        jax.block_until_ready(carried[1])

    return step


def run_pytorch(shampoo: bool) -> Callable[[], None]:
    import torch

    import libshampoo.torch

    layers = [torch.nn.Linear(m, n) for m, n in zip(SIZES, SIZES[1:])]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    make = libshampoo.torch.Shampoo if shampoo else torch.optim.Adam
    opt = make(model.parameters(), lr=RATE)
    x, y = torch.from_numpy(X), torch.from_numpy(Y)

    def step() -> None:
        opt.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        opt.step()

    return step


def run_tensorflow(shampoo: bool) -> Callable[[], None]:
    import keras
    import tensorflow as tf

    variables = [tf.Variable(value) for value in weights().values()]
    arrays = [variable.numpy().copy() for variable in variables]
    opt: Any = libshampoo.Optimizer(arrays, lr=RATE) if shampoo else keras.optimizers.Adam(RATE)
    x, y = tf.constant(X), tf.constant(Y)

    def loss() -> Any:
        out = x
        for i in range(3):
            out = out @ variables[2 * i] + variables[2 * i + 1]
            out = tf.nn.relu(out) if i < 2 else out
        return tf.reduce_mean((out - y) ** 2)

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            value = loss()
        return tape.gradient(value, variables)

    compiled = tf.function(gradients)

    def step() -> None:
        opt.step(compiled())
        for variable, array in zip(variables, arrays):
            variable.assign(array)

    def adam() -> None:
        opt.apply_gradients(zip(gradients(), variables))

    if shampoo:
        return step
    opt.build(variables)
    return tf.function(adam)


def run_keras(shampoo: bool) -> Callable[[], None]:
    import keras

    class KerasShampoo(keras.optimizers.Optimizer):
        def build(self, variables: Any) -> None:
            super().build(variables)
            self.arrays = [variable.numpy().copy() for variable in variables]
            self.shampoo = libshampoo.Optimizer(self.arrays)

        def apply(self, grads: Any, trainable_variables: Any = None) -> None:
            if not self.built:
                self.build(trainable_variables)
            self.shampoo.lr = float(self.learning_rate)
            self.shampoo.step([keras.ops.convert_to_numpy(grad) for grad in grads])
            for variable, array in zip(self._trainable_variables, self.arrays):
                variable.assign(array)
            self.iterations.assign_add(1)

    dense = [keras.layers.Dense(n, activation=kind) for n, kind in zip(SIZES[1:], ("relu", "relu", None))]
    model = keras.Sequential([keras.Input(SIZES[:1]), *dense])
    make = KerasShampoo if shampoo else keras.optimizers.Adam
    model.compile(optimizer=make(RATE), loss="mse", run_eagerly=shampoo)
    return lambda: model.train_on_batch(X, Y)


def run_paddle(shampoo: bool) -> Callable[[], None]:
    import paddle

    layers = [paddle.nn.Linear(m, n) for m, n in zip(SIZES, SIZES[1:])]
    model = paddle.nn.Sequential(layers[0], paddle.nn.ReLU(), layers[1], paddle.nn.ReLU(), layers[2])
    params = dict(model.named_parameters())
    x, y = paddle.to_tensor(X), paddle.to_tensor(Y)
    if shampoo:
        opt = libshampoo.Optimizer(params, lr=RATE)
    else:
        own = paddle.optimizer.Adam(RATE, parameters=model.parameters())

    def step() -> None:
        paddle.nn.functional.mse_loss(model(x), y).backward()
        if shampoo:
            opt.step({name: param.grad for name, param in params.items()})
        else:
            own.step()
        model.clear_gradients()

    return step


def run_mlx(shampoo: bool) -> Callable[[], None]:
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers
    from mlx.utils import tree_flatten

    layers = [nn.Linear(m, n) for m, n in zip(SIZES, SIZES[1:])]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    mx.eval(model.parameters())
    x, y = mx.array(X), mx.array(Y)
    gradients = nn.value_and_grad(model, lambda model: nn.losses.mse_loss(model(x), y))
    if shampoo:
        opt = libshampoo.Optimizer(dict(tree_flatten(model.trainable_parameters())), lr=RATE)
    else:
        own = mlx.optimizers.Adam(RATE)

    def step() -> None:
        loss, grads = gradients(model)
        if shampoo:
            mx.eval(loss, grads)
            opt.step(dict(tree_flatten(grads)))
        else:
            own.update(model, grads)
            mx.eval(model.parameters(), own.state)

    return step


def run_tinygrad(shampoo: bool) -> Callable[[], None]:
    from tinygrad import Tensor, TinyJit, nn
    from tinygrad.helpers import Context

    import libshampoo.tinygrad

    with Context(DEV="CPU"):
        layers = [nn.Linear(m, n) for m, n in zip(SIZES, SIZES[1:])]
        params = nn.state.get_parameters(layers)
        make = libshampoo.tinygrad.Shampoo if shampoo else nn.optim.Adam
        opt = make(params, lr=RATE)
        x, y = Tensor(X).realize(), Tensor(Y).realize()

    def loss() -> Any:
        return (layers[2](layers[1](layers[0](x).relu()).relu()) - y).square().mean()

    @TinyJit
    def gradients() -> Any:
        opt.zero_grad()
        loss().backward()
        return [param.grad.realize() for param in params]

    @TinyJit
    def whole() -> None:
        opt.zero_grad()
        loss().backward()
        opt.step()

    def step() -> None:
        with Context(DEV="CPU", TRAINING=1):
            if not shampoo:
                whole()
                return
            for param, grad in zip(params, gradients()):
                param.grad = grad
            opt.step()

    return step


RUNS = {"NumPy": run_numpy, "JAX": run_jax, "Flax": run_flax, "Equinox": run_equinox, "PyTorch": run_pytorch,
        "TensorFlow": run_tensorflow, "Keras": run_keras, "Paddle": run_paddle, "MLX": run_mlx,
        "tinygrad": run_tinygrad}  # fmt: skip


def seconds(step: Callable[[], None], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count


def compare(name: str) -> str:
    steps = [RUNS[name](shampoo) for shampoo in (True, False)]
    for step in steps:
        seconds(step, WARM_UP)
    pairs = [[seconds(step, STEPS) for step in steps] for _ in range(ROUNDS)]
    ours, own = (1e3 * statistics.median(times) for times in zip(*pairs))
    ratio = statistics.median(a / b for a, b in pairs)
    return f"| {name} | {ours:.2f} ms | {own:.2f} ms | {ratio:.2f} |"


def main() -> None:
    names = sys.argv[1:] or list(RUNS)
    print("| framework | Shampoo | Adam | ratio |\n|---|---|---|---|", flush=True)
    if len(names) > 1:  # some frameworks do not work together in one process
        for name in names:
            run = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)
            print(run.stdout.rstrip().split("\n")[-1] if run.returncode == 0 else run.stderr, flush=True)
        return
    try:
        print(compare(names[0]), flush=True)
    except ImportError as error:
        print(f"| {names[0]} | not installed: {error.name or error} | | |", flush=True)


if __name__ == "__main__":
    main()
