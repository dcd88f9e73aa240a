# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Protocol that checkpoints and parameter groups use to access an optimizer."""
from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from . import _native


class HasHandle(Protocol):
    """An optimizer with a handle that one thread at a time can use."""

    def _using(self) -> AbstractContextManager[_native.shampoo_optimizer]:
        """Return a context in which the handle can be used."""
        ...
