"""Keras's graph, its names, and the phase of learning."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.state import learning_phase, set_learning_phase
from dtfctl.runtime.ops.cond import smart_cond


def backend() -> str:
    """Return "tensorflow"."""
    return "tensorflow"


def clear_session() -> None:
    """Begin anew: an empty default graph, names that count from the start, no session."""
    state.forget_graph()
    context.reset_default_graph()


def reset_uids() -> None:
    """Give names from the start again."""
    state.graph_state().names.clear()


def get_uid(prefix: str = "") -> int:
    """Count the uses of a prefix in this graph: 1, 2, ..."""
    names = state.graph_state().names
    names["uid", prefix] = names.get(("uid", prefix), 0) + 1
    return names["uid", prefix]


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Choose x while training, and alt otherwise; both may be functions."""
    training = learning_phase() if training is None else training
    first, second = (v if callable(v) else (lambda v=v: v) for v in (x, alt))
    return smart_cond(training, first, second)


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Choose alt while training, and x otherwise; both may be functions."""
    return in_train_phase(alt, x, training)


@contextlib.contextmanager
def learning_phase_scope(value: Any) -> Iterator[None]:
    """Fix the phase inside a block; 0 or 1."""
    saved = state.graph_state().phase
    set_learning_phase(value)
    try:
        yield
    finally:
        state.graph_state().phase = saved
