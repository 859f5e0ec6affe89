"""The default session of each thread: what `Tensor.eval` and `Operation.run` use."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

from dtfctl.runtime.framework import operation

_Session = TypeVar("_Session")


class _DefaultSessions(threading.local):
    def __init__(self) -> None:
        self.stack: list[Any] = []


default_sessions = _DefaultSessions()


@contextlib.contextmanager
def default_session(session: _Session) -> Iterator[_Session]:
    """Make a session this thread's default one for a block."""
    default_sessions.stack.append(session)
    try:
        yield session
    finally:
        if not default_sessions.stack or default_sessions.stack[-1] is not session:
            raise AssertionError(f"Nesting violated for default stack of {type(session)} objects: not the innermost")
        default_sessions.stack.pop()


def get_default_session() -> Any:
    """Get the innermost default session of this thread, or None."""
    return default_sessions.stack[-1] if default_sessions.stack else None


operation.set_default_session_getter(get_default_session)
