# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Messages of the library, which go to the logger "libshampoo" of Python's logging.

The library passes messages of all levels, and the logger's level decides which ones appear. A step logs nothing but
warnings, so messages that do not appear cost nothing there.
"""
from __future__ import annotations

import atexit
import logging

from . import _native

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_logger = logging.getLogger("libshampoo")


def _deliver(level: int, message: str) -> None:
    _logger.log(_LEVELS[level], message)  # without arguments: a "%" in the message stays as it is


def _silence() -> None:
    _native.shampoo_set_log(None, 0)


_native.shampoo_set_log(_deliver, len(_LEVELS) - 1)
atexit.register(_silence)
