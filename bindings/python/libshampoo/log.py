# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Messages of the library, which go to the logger "libshampoo" of Python's logging."""
from __future__ import annotations

import atexit
import logging

from . import _native

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_logger = logging.getLogger("libshampoo")


def _deliver(level: int, message: str) -> None:
    _logger.log(_LEVELS[level], "%s", message)


def set_log_level(level: int) -> None:
    """Say which messages the library makes: 0 errors, 1 warnings (as it begins), 2 information, 3 everything.

    Levels of logging are taken, too: ``logging.INFO`` is 2.
    """
    if level >= logging.DEBUG:
        level = sum(level <= each for each in _LEVELS[1:])
    _native.shampoo_set_log(_deliver, level)


def _silence() -> None:
    _native.shampoo_set_log(None, 0)


set_log_level(1)
atexit.register(_silence)
