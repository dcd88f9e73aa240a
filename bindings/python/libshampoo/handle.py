# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""What checkpoints and parameter groups need of an optimizer."""
from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from . import _native


class HasHandle(Protocol):
    """An optimizer, whose handle one thread at a time can use."""

    def _using(self) -> AbstractContextManager[_native.shampoo_optimizer]:
        """Return a context in which the handle can be used."""
        ...
