"""Threads that stay in machine code, and take part in the jobs of tapes (lanes.py).

A job is published while its caller runs it. A thread of the crew looks for one for some microseconds after it has had
one, then sleeps; it comes and goes as it likes, as a job is done once its parts are. It says which job it looks at, so
that nobody lets go of that.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dtfctl import guard
from dtfctl.cores import granted
from dtfctl.runtime.kernels.native import machine
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.lanes import Job

# What a crew has at which place, in lines of the caches of their own: how many jobs have been published so far, and the
# one that is; who may publish; how many threads sleep; whether there are threads; for how many cycles they look for
# work, and the address of the C library's `syscall`; and, of each thread, the job it looks at.
NUMBER, CURRENT, BUSY, SLEEPERS, ALIVE, PATIENCE = range(0, 48, 8)
SYSTEM = PATIENCE + 1
LOOKED_AT, LINE = 48, 8
# Looks, 10 ms apart, for whether a thread has ended.
_ENDS_WITHIN = 200
# So long they look for work, in seconds: to wake one takes some 20 us, and its core is somebody's.
_PATIENCE_S = 100e-6
# Of Linux on x86-64: a system call, and what it is to do, for threads of this process.
_FUTEX, _WAKE = 202, 129


class Crew:
    """Threads that run lanes, the first of which is that of a job's caller."""

    def __init__(self, code: Image, cycles_a_second: float, threads: int) -> None:
        self.words = np.zeros(LOOKED_AT + LINE * (threads + 1), np.int64)
        self.words[PATIENCE] = int(_PATIENCE_S * cycles_a_second)
        self.words[SYSTEM] = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value or 0
        self.words[ALIVE] = 1
        entry, self._held = machine.entry(code, "serve")
        serve = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(entry)
        self._left: list[Job] = []
        lanes = range(1, threads + 1)
        self._threads = [guard.once(partial(self._serve, serve, lane), name=f"lane-{lane}") for lane in lanes]
        for n, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError:
                # There may be no more of them: callers do what those would have done.
                del self._threads[n:]
                break
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.end)

    def _serve(self, serve: Callable[[int, int], None], lane: int) -> None:
        """Run a lane; the thread holds all that it reads, also one that is in a part which does not end."""
        serve(self.words.ctypes.data, lane)

    def keep(self, owner: Any, job: Job) -> None:
        """Let a job be as long as its owner is, or one of the threads looks at it."""
        weakref.finalize(owner, self._left.append, job)
        left = list(self._left)
        looked_at = set(self.words[LOOKED_AT::LINE].tolist())
        for one in left:
            if one.address not in looked_at:
                self._left.remove(one)

    def _forked(self) -> None:
        # The threads are not there.
        self.words[ALIVE] = 0

    def end(self) -> None:
        """End the threads; tapes are run by their callers from now on."""
        self.words[ALIVE] = 0
        self.words[NUMBER] += 1
        address = self.words.ctypes.data + NUMBER * 8
        for _ in range(_ENDS_WITHIN):
            ctypes.CDLL(None).syscall(_FUTEX, ctypes.c_void_p(address), _WAKE, len(self._threads), None)
            for thread in self._threads:
                thread.join(0.01 / len(self._threads))
            if not any(thread.is_alive() for thread in self._threads):
                return


_LOCK = threading.Lock()
_crew: Crew | None = None


def crew(code: Image, cycles_a_second: float) -> Crew:
    """Return the process's crew, a thread for each core that it has got but the caller's."""
    global _crew
    with _LOCK:
        if _crew is None:
            _crew = Crew(code, cycles_a_second, max(granted() - 1, 1))
        return _crew
