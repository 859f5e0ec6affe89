"""Steps are answered when they are told to end, also where a kernel that nothing can interrupt goes on.

A kernel is a call of a library: it ends when it ends. Who waits for its step is answered all the same, soon after the
step was told to end by a deadline, a close or an interruption. What runs on holds what it uses, what it gives is
dropped, and its thread cleans up after it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError
from dtfctl.runtime.steps.deadlines import DEADLINES
from dtfctl.runtime.steps.grace import ENDED, GRACE_S, is_told
from dtfctl.runtime.steps.threads import submit

log = logging.getLogger(__name__)
T = TypeVar("T")

LOOK_S = 0.3
"""How often who waits looks for a signal."""
LONG_S = 0.1
"""A signature whose step took longer is run where its caller can leave it."""


def when_late(token: CancellationToken, answer: Callable[[], Any]) -> None:
    """Call `answer` when the grace of a step is over that was just told to end; nothing where it failed."""
    if is_told(token.reason):
        DEADLINES.after(GRACE_S, answer)


def wait(running: Future[Any], token: CancellationToken) -> bool:
    """Wait until something of a step has ended, and whether it has: the step may have been told to end before.

    Raises:
        KeyboardInterrupt: and what else may come of waiting; the step is then told to end.
    """
    over = threading.Event()
    running.add_done_callback(lambda _: over.set())

    def told() -> None:
        # One that has ended cancels its token to clean up. Its answer is on the way, however late its thread runs on.
        if token.reason is not ENDED:
            when_late(token, over.set)

    withdraw = token.on_cancel(told)
    try:
        # A signal that comes just before the thread begins to wait does not end that wait.
        while not over.wait(LOOK_S):
            pass
    except BaseException:
        token.cancel(CancelledError("The step was interrupted"))
        raise
    finally:
        withdraw()
    return running.done()


def apart(work: Callable[[], T], token: CancellationToken) -> T:
    """Do the work of a step in a thread of its own; what it gives.

    Args:
        work: cleans up after itself.
        token: cancels the work.

    Raises:
        OpError: what the work raised, or why it was told to end if that takes too long.
    """
    try:
        running = submit(work)
    except RuntimeError:
        # No thread can be started, as when the interpreter ends.
        return work()
    try:
        if not wait(running, token):
            log.info("a step was given up: %s; what it computes goes on", token.reason)
            raise token.reason or CancelledError("Step was cancelled")
        return running.result()
    finally:
        # An error holds this frame.
        del running
