"""`tf.train.basic_train_loop`: steps under a Supervisor until it stops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.errors import AbortedError
from dtfctl.runtime.train.supervisor import Supervisor


def basic_train_loop(
    supervisor: Supervisor, train_step_fn: Callable[..., Any], args: Any = None, kwargs: Any = None, master: str = ""
) -> None:
    """Call a function with a session and more arguments until the supervisor stops; again where its session was lost.

    Raises:
        What the function raises, but AbortedError.
    """
    given = [] if args is None else list(args)
    while True:
        try:
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *given, **(kwargs or {}))
            return
        except AbortedError:
            continue
