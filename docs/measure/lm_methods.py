# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The methods that language_model.py compares. Each method trains the matrices of the transformer blocks."""
import importlib.util
import pathlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from lm_prototype import PrototypeShampoo


class Method(NamedTuple):
    make: Callable[..., torch.optim.Optimizer]  # arguments: the matrices, the learning rate and the settings
    usual_rate: float  # learning rate at which the search for the best rate starts
    settings: dict[str, Any]  # default settings; --set overrides them


def with_betas(make: Callable[..., torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """Returns a function that takes beta1 and beta2, and calls make with the pair betas=(beta1, beta2)."""
    def made(params: list[Any], rate: float, beta1: float, beta2: float, **settings: Any) -> torch.optim.Optimizer:
        return make(params, lr=rate, betas=(beta1, beta2), **settings)
    return made


def make_muon(params: list[Any], rate: float, **settings: Any) -> torch.optim.Optimizer:
    if not hasattr(torch.optim, "Muon"):
        sys.exit(f"torch.optim.Muon is missing in PyTorch {torch.__version__}; expected 2.9 or later. Upgrade PyTorch.")
    return torch.optim.Muon(params, lr=rate, **settings)


def make_soap(params: list[Any], rate: float, soap: str, **settings: Any) -> torch.optim.Optimizer:
    if not soap:
        sys.exit("--soap is missing: method soap needs the path of soap.py of SOAP's authors (nikhilvyas/SOAP)")
    spec = importlib.util.spec_from_file_location("soap", pathlib.Path(soap))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return with_betas(module.SOAP)(params, rate, **settings)


def make_library(params: list[Any], rate: float, **keys: Any) -> torch.optim.Optimizer:
    import libshampoo.torch  # imported here, so that the other methods work without libshampoo
    return libshampoo.torch.Shampoo(params, lr=rate, threads=torch.get_num_threads(), **keys)


METHODS = {
    "adamw": Method(with_betas(torch.optim.AdamW), 0.008, {"beta1": 0.9, "beta2": 0.95, "weight_decay": 0.0}),
    "muon": Method(make_muon, 0.02, {"momentum": 0.9, "weight_decay": 0.0}),
    "soap": Method(make_soap, 0.008, {"beta1": 0.9, "beta2": 0.9, "precondition_frequency": 10, "weight_decay": 0.0}),
    "shampoo": Method(make_library, 0.008, {}),
    "prototype": Method(PrototypeShampoo, 0.008, {}),
}


def make_optimizers(method: str, settings: dict[str, Any], rate: float, rest_rate: float, soap: str,
                    matrices: list[Any], rest: list[Any]) -> list[torch.optim.Optimizer]:
    """Returns the method's optimizer for the matrices, and AdamW for the other parameters."""
    chosen = METHODS[method]
    extra = {"soap": soap} if method == "soap" else {}
    return [chosen.make(matrices, rate, **extra, **{**chosen.settings, **settings}),
            torch.optim.AdamW(rest, lr=rest_rate, betas=(0.9, 0.95), weight_decay=0.0)]
