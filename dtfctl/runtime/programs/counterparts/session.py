"""`tensorflow.python.client.session`: sessions, and fetches of a program's own types."""

from __future__ import annotations

from dtfctl.runtime.client.fetches import register_session_run_conversion_functions
from dtfctl.runtime.client.interactive import InteractiveSession
from dtfctl.runtime.client.session import Session, Session as BaseSession, Session as SessionInterface

__all__ = [
    "BaseSession",
    "InteractiveSession",
    "Session",
    "SessionInterface",
    "register_session_run_conversion_functions",
]
