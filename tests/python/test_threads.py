# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests of steps in several threads, and of a forked process."""
from __future__ import annotations

import ctypes
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libshampoo
from tools import ROOT

THREADS = 4
PATIENCE = 60  # how long a thread waits for others, in seconds


def in_threads(function: Any, count: int = THREADS) -> list[Any]:
    results: list[Any] = [None] * count

    def run(number: int) -> None:
        try:
            results[number] = function(number)
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
        assert not thread.is_alive()
    return results


class Pair:
    """Two ranks in threads. While ``stepping`` is true, each all-gather first waits at the barrier ``meeting``."""

    def __init__(self, meeting: threading.Barrier) -> None:
        self.meeting, self.own = meeting, threading.Barrier(2)
        self.slots: list[bytes] = [b"", b""]
        self.stepping = False

    def rank(self, rank: int) -> libshampoo.Communicator:
        def all_gather(send: memoryview, recv: memoryview) -> None:
            if self.stepping:
                self.meeting.wait(PATIENCE)
            self.slots[rank] = bytes(send)
            self.own.wait(PATIENCE)
            recv[:] = b"".join(self.slots)
            self.own.wait(PATIENCE)

        return libshampoo.CallableComm(all_gather, rank, 2)


@pytest.fixture
def meeting(tmp_path: Path) -> ctypes.CDLL:
    """Compile an all-gather in which four threads wait for each other without the GIL."""
    library = tmp_path / "meeting.so"
    subprocess.run(
        ["cc", "-std=gnu99", "-shared", "-fPIC", "-Wall", "-Werror", "-pthread", f"-I{ROOT / 'capi' / 'include'}",
         Path(__file__).parent / "meeting.c", "-o", library], check=True,
    )  # fmt: skip
    found = ctypes.CDLL(str(library))
    found.meeting_ops.restype = ctypes.c_void_p
    return found


def test_steps_of_four_threads_overlap(meeting: ctypes.CDLL) -> None:
    """Each step waits in an all-gather for the other steps. If a step held the GIL, the all-gather would time out."""

    def train(number: int) -> Any:
        w = np.ones((6, 4), np.float32)
        comm = libshampoo.NativeComm(meeting.meeting_ops(number // 2, number % 2), number % 2, 2)
        opt = libshampoo.Optimizer([w], comm=comm, lr=0.1, threads=1)
        opt.step([np.full((6, 4), 2, np.float32)])
        return w

    trained = in_threads(train)
    assert all(isinstance(w, np.ndarray) for w in trained), trained
    alone = np.ones((6, 4), np.float32)
    libshampoo.Optimizer([alone], lr=0.1, threads=1).step([np.full((6, 4), 2, np.float32)])
    assert all(w.tobytes() == alone.tobytes() for w in trained)


def test_a_thread_runs_while_three_others_wait_in_a_step(meeting: ctypes.CDLL) -> None:
    seen: list[int] = []

    def run(number: int) -> Any:
        comm = libshampoo.NativeComm(meeting.meeting_ops(number // 2, number % 2), number % 2, 2)
        opt = libshampoo.Optimizer([np.ones(4, np.float32)], comm=comm, threads=1)
        if number == 3:
            while meeting.meeting_waits() < 3:  # the three other steps fail if they wait 20 seconds
                time.sleep(0.001)
            seen.append(meeting.meeting_waits())
        opt.step([np.ones(4, np.float32)])
        return opt.stats()["steps"]

    assert in_threads(run) == [1] * THREADS
    assert seen == [3], "this thread must run while three steps wait"


def test_an_optimizer_rejects_calls_during_its_step() -> None:
    found: list[str] = []

    class Asks(Pair):
        def rank(self, rank: int) -> libshampoo.Communicator:
            comm = super().rank(rank)
            exchange = comm.all_gather

            def all_gather(send: memoryview, recv: memoryview) -> None:
                for call in ("lr", "close") if self.stepping else ():
                    try:
                        member = getattr(opts[rank], call)
                        member()
                    except RuntimeError as error:
                        found.append(str(error))
                exchange(send, recv)

            return libshampoo.CallableComm(all_gather, rank, 2)

    opts: list[Any] = [None, None]
    pair = Asks(threading.Barrier(2))
    ready = threading.Barrier(2)

    def run(number: int) -> Any:
        opts[number] = libshampoo.Optimizer([np.ones(4, np.float32)], comm=pair.rank(number), threads=1)
        ready.wait(PATIENCE)
        pair.stepping = True
        ready.wait(PATIENCE)
        opts[number].step([np.ones(4, np.float32)])
        return opts[number].plan is not None

    assert in_threads(run, 2) == [True, True]
    assert len(found) >= 4 and all("in use by another thread" in text for text in found)


def test_a_forked_child_can_exit() -> None:
    opt = libshampoo.Optimizer([np.ones((8, 8), np.float32)], threads=3)
    opt.step([np.ones((8, 8), np.float32)])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            opt.step()
        except RuntimeError as error:
            code = 0 if "fork" in str(error) else 2
        del opt
        os._exit(code)
    for _ in range(100 * PATIENCE):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    assert (ended, status) == (child, 0)
    opt.step()
