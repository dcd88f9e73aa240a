# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The methods that the benchmarks compare, as options of the library."""
from __future__ import annotations

from typing import NamedTuple

# AdamW with the beta2 that is usual for language models.
ADAMW = "preset=adamw beta2=0.95"


class Method(NamedTuple):
    """A method. If `adamw_rest` is true, its options apply only to the parameters that AdamW does not update."""

    name: str
    label: str
    options: str
    usual_rate: float  # a search tries this rate first; it was found in short runs of the language model
    adamw_rest: bool = False  # whether AdamW updates embeddings, the output layer and vectors
    decays: bool = True  # whether `options` get the weight decay of the benchmark; AdamW for the rest always gets it

    @property
    def alone(self) -> Method:
        """Return a copy of this method that updates all parameters, without AdamW."""
        return self._replace(label=self.label.replace(", AdamW for the rest", ""), adamw_rest=False)

    def arguments(self, rate: float, decay: float, rest_rate: float) -> list[str]:
        """Return arguments that select this method in a trainer. If `adamw_rest` is true, AdamW uses `rest_rate`."""
        options = f"{self.options} lr={rate:.6g} weight_decay={decay if self.decays else 0:g}"
        listed = ["--optimizer", options]
        if self.adamw_rest:
            listed += ["--rest", f"{ADAMW} lr={rest_rate:.6g} weight_decay={decay:g}"]
        return listed


METHODS = (
    Method("adamw", "AdamW", ADAMW, 0.004),
    Method("muon", "Muon, AdamW for the rest", "preset=muon", 0.03, adamw_rest=True),
    Method("normuon", "NorMuon, AdamW for the rest", "preset=normuon", 0.03, adamw_rest=True),
    Method("shampoo_2024", "Shampoo, preset shampoo_2024", "preset=shampoo_2024", 0.4),
    Method("shampoo", "Shampoo, defaults", "preset=shampoo", 0.016),
    Method("soap", "SOAP", "preset=soap", 0.008),
    Method("kl_shampoo", "KL-Shampoo", "preset=kl_shampoo", 0.011),
    Method("adamw_h", "AdamW on the hyperball", f"{ADAMW} norm_control=hyperball", 0.01, adamw_rest=True, decays=False),
    Method("muon_h", "Muon on the hyperball", "preset=muonh", 0.04, adamw_rest=True, decays=False),
    Method("soap_h", "SOAP on the hyperball", "preset=soap_h", 0.03, adamw_rest=True, decays=False),
)


def by_name(name: str) -> Method:
    """Return the method with this name."""
    return next(method for method in METHODS if method.name == name)
