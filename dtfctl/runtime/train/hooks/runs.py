"""Hooks that add something to what is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook


class FinalOpsHook(SessionRunHook):
    """Evaluates tensors at the end; see `final_ops_values`."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops, self._feeds, self._values = final_ops, final_ops_feed_dict, None

    @property
    def final_ops_values(self) -> Any:
        return self._values

    def end(self, session: Any) -> None:
        if self._ops is not None:
            self._values = session.run(self._ops, feed_dict=self._feeds)


class FeedFnHook(SessionRunHook):
    """Feeds what a function returns, in every run."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
