# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The method "prototype" of language_model.py: Shampoo with Adam grafting, in PyTorch code that needs no libshampoo.

Matrices of equal shape are stacked in one tensor and updated together. Settings have the names of the library's keys.
"""
import math
from typing import Any

import torch

DEFAULTS = {"beta1": 0.9, "beta2": 0.95, "precondition_frequency": 20, "refresh_growth": 0.05,
            "inverse_root_override": 2, "exponent_multiplier": 1.0, "root_relative_epsilon": 1e-5, "epsilon": 0.0,
            "grafting_beta2": 0.999, "grafting_epsilon": 1e-8, "weight_decay": 0.0}


class PrototypeShampoo(torch.optim.Optimizer):
    def __init__(self, params: Any, lr: float, **settings: Any):
        unknown = sorted(set(settings) - set(DEFAULTS))
        if unknown:
            raise ValueError(f"unknown settings of the prototype: {', '.join(unknown)}; expected {', '.join(DEFAULTS)}")
        super().__init__(params, {"lr": lr, **DEFAULTS, **settings})
        self.t, self.due = 0, 1
        shapes: dict[torch.Size, list[torch.Tensor]] = {}
        for param in self.param_groups[0]["params"]:
            shapes.setdefault(param.shape, []).append(param)
        self.stacks = [(params, self.make_state(len(params), *shape)) for shape, params in shapes.items()]

    @staticmethod
    def make_state(count: int, rows: int, columns: int) -> dict:
        return {"factors": [torch.zeros(count, n, n) for n in (rows, columns)], "roots": [None, None],
                "filtered": torch.zeros(count, rows, columns), "moment": torch.zeros(count, rows, columns)}

    def refresh_is_due(self, keys: dict) -> bool:
        frequency, growth = keys["precondition_frequency"], keys["refresh_growth"]
        if growth == 0:
            return self.t % frequency == 0
        if self.t < self.due:
            return False
        self.due = self.t + max(1, min(frequency, math.floor(growth * self.t)))
        return True

    @staticmethod
    def inverse_root(factor: torch.Tensor, keys: dict) -> torch.Tensor:
        values, vectors = torch.linalg.eigh(factor)
        mean = values.mean(dim=-1, keepdim=True)  # the trace divided by the size of the matrix
        values = values - values.amin(dim=-1, keepdim=True).clamp(max=0)
        values = values + keys["root_relative_epsilon"] * mean + keys["epsilon"]
        power = values**(-keys["exponent_multiplier"] / keys["inverse_root_override"])
        return (vectors * power[:, None]) @ vectors.mT

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        keys = self.param_groups[0]
        self.t += 1
        refresh = self.refresh_is_due(keys)
        for params, state in self.stacks:
            grad = torch.stack([param.grad for param in params])
            direction = self.direction(grad, state, keys, refresh)
            for param, update in zip(params, direction):
                param.mul_(1 - keys["lr"] * keys["weight_decay"]).sub_(update, alpha=keys["lr"])

    def direction(self, grad: torch.Tensor, state: dict, keys: dict, refresh: bool) -> torch.Tensor:
        beta1, beta2, moment_beta = keys["beta1"], keys["beta2"], keys["grafting_beta2"]
        correction = 1.0 if beta2 == 1 else 1 - beta2**self.t
        for dim, factor in enumerate(state["factors"]):
            torch.baddbmm(factor, *((grad, grad.mT) if dim == 0 else (grad.mT, grad)), beta=beta2,
                          alpha=1.0 if beta2 == 1 else 1 - beta2, out=factor)
            if refresh:
                state["roots"][dim] = self.inverse_root(factor / correction, keys)
        filtered, moment = state["filtered"].lerp_(grad, 1 - beta1), state["moment"]
        moment.mul_(moment_beta).addcmul_(grad, grad, value=1 - moment_beta)
        filtered = filtered / (1 - beta1**self.t)
        grafted = filtered / ((moment / (1 - moment_beta**self.t)).sqrt_() + keys["grafting_epsilon"])
        if state["roots"][0] is None:
            return grafted
        direction = state["roots"][0] @ filtered @ state["roots"][1]
        norms = [x.flatten(1).norm(dim=1) for x in (grafted, direction)]
        return direction * (norms[0] / (norms[1] + 1e-16))[:, None, None]
