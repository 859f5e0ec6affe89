"""Calling what programs give: functions that take some of the arguments that are offered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.train.session_run_hook import SessionRunHook


def arguments(function: Callable[..., Any]) -> set[str]:
    """Return the names of a function's arguments."""
    return set(inspect.signature(function).parameters)


def call_input_fn(input_fn: Callable[..., Any], offered: Mapping[str, Any]) -> tuple[Any, Any, list[Any]]:
    """Call an input function; gives features, labels or None, and hooks that start the input."""
    takes = arguments(input_fn)
    with tf.device("/cpu:0"):
        given = input_fn(**{k: v for k, v in offered.items() if k in takes})
        hooks = []
        if isinstance(given, tf.data.Dataset):
            iterator = tf.data.make_initializable_iterator(given)
            hooks.append(IteratorHook(iterator.initializer))
            given = iterator.get_next()
    if not isinstance(given, (list, tuple)):
        return given, None, hooks
    if len(given) != 2:
        raise ValueError("input_fn should return (features, labels) as a len 2 tuple.")
    return given[0], given[1], hooks


class IteratorHook(SessionRunHook):
    """Starts an iterator in each new session."""

    def __init__(self, initializer: Any) -> None:
        self._initializer = initializer

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._initializer)
