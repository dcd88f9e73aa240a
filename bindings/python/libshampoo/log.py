# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Forwards the library's log messages to the logger "libshampoo" of Python's logging.

The library passes messages of all levels to this module, and the logger drops messages below its own level. Passing
all levels does not slow down steps: steps log only warnings and errors, unless track_root_residuals=true.
"""
from __future__ import annotations

import atexit
import logging

from . import _native

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_logger = logging.getLogger("libshampoo")


def _deliver(level: int, message: str) -> None:
    _logger.log(_LEVELS[level], message)  # without further arguments, log() does not interpret "%"


def _silence() -> None:
    _native.shampoo_set_log(None, 0)


_native.shampoo_set_log(_deliver, len(_LEVELS) - 1)
atexit.register(_silence)
