"""Hooks: what a monitored session calls around every run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class SessionRunArgs(NamedTuple):
    """What a hook wants added to a run."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a hook gets after a run: its own fetches, and the run's options and metadata."""

    results: Any
    options: Any
    run_metadata: Any


@dataclass
class SessionRunContext:
    """The run a hook is called for; `request_stop` ends the loop after it."""

    original_args: SessionRunArgs
    session: Any
    _stop: list[bool] = field(default_factory=lambda: [False])

    def request_stop(self) -> None:
        self._stop[0] = True

    @property
    def stop_requested(self) -> bool:
        return self._stop[0]


class SessionRunHook:
    """Override what is needed."""

    def begin(self) -> None:
        """Called once, while the graph may still grow."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called for every new session: the first, and after each recovery."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each run; may ask for more fetches."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each run that did not fail."""

    def end(self, session: Any) -> None:
        """Called at the end, unless a run failed."""
