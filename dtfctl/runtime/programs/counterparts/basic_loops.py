"""`tensorflow.python.training.basic_loops`: a training loop that begins again where it was aborted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.api import errors


def basic_train_loop(
    supervisor: Any,
    train_step_fn: Callable[..., Any],
    args: Any = None,
    kwargs: Any = None,
    master: str = "",
) -> None:
    """Call train_step_fn(session, *args, **kwargs) until the supervisor stops; a new session follows an abort."""
    while True:
        try:
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *(args or ()), **(kwargs or {}))
            return
        except errors.AbortedError:
            continue
