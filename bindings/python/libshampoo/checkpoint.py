# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Saves the states of one or more optimizers as a checkpoint, and loads checkpoints."""
from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from . import _native
from .comm import connect, wrap
from .handle import HasHandle


def _call(
    function: Callable[..., None], optimizers: Sequence[HasHandle], directory: Any, world: Any, stream: int
) -> None:
    world, owned = wrap(world)
    comm, _ = connect(world)
    with ExitStack() as stack:
        handles = [stack.enter_context(optimizer._using()) for optimizer in optimizers]
        function(handles, comm, os.fsdecode(directory), stream or None)
    del comm
    for communicator in owned:  # not after an exception: close() is collective, and other ranks might not call it
        communicator.close()


def save(optimizers: Sequence[HasHandle], directory: Any, *, world: Any = None, stream: int = 0) -> None:
    """Save the states of the optimizers of all ranks as one checkpoint. All ranks of the job must call this function.

    Parameters
    ----------
    optimizers
        Optimizers of this rank.
    directory
        Directory for checkpoints, which is created if it does not exist. Only the newest checkpoints are
        kept (key "checkpoint_keep"). docs/checkpoints.md describes the files.
    world
        Communicator of all ranks of the job. None: there is only one rank.
    stream
        CUDA stream on which the states are copied.
    """
    _call(_native.shampoo_save, optimizers, directory, world, stream)


def load(optimizers: Sequence[HasHandle], directory: Any, *, world: Any = None, stream: int = 0) -> None:
    """Load a checkpoint into the optimizers of all ranks. All ranks of the job must call this function.

    Parameters
    ----------
    optimizers
        Optimizers of this rank.
    directory
        A directory that was passed to ``save``, or an index file ``checkpoint-<number>.json`` in such a directory. From
        a directory, the last complete checkpoint is loaded.
    world
        Communicator of all ranks of the job. None: there is only one rank.
    stream
        CUDA stream on which the states are copied.
    """
    _call(_native.shampoo_load, optimizers, directory, world, stream)
