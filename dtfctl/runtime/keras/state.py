"""What Keras keeps beside a graph: names given, variables to initialize, the phase of learning, the session."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.func_graph import outermost_graph
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.variable_collections import is_variable_initialized, variables_initializer


@dataclass
class GraphState:
    """What belongs to one graph."""

    names: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often each name was given, by namespace and name."""
    variables: list[Any] = field(default_factory=list)
    """The variables of layers, metrics and optimizers, to be initialized when a session is first used."""
    optimizers: list[Any] = field(default_factory=list)
    """TF1's optimizers in use, whose variables come later."""
    initialized: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    phase: Any = None
    make_session: Callable[[], Any] | None = None
    """What makes Keras's own session; None for one of this process."""


_STATES: weakref.WeakKeyDictionary[Any, GraphState] = weakref.WeakKeyDictionary()


class _Globals(threading.local):
    session: Any = None
    is_given = False
    calls: list[tuple[Any, Any, Any]]

    def __init__(self) -> None:
        self.calls = []


_globals = _Globals()
_options = {"manual_initialization": False}


def graph_state() -> GraphState:
    """Return what is kept for the default graph."""
    graph = outermost_graph()
    if graph not in _STATES:
        _STATES[graph] = GraphState()
    return _STATES[graph]


def unique_name(name: str, namespace: str = "", zero_based: bool = True) -> str:
    """Give a name that was not given before in this graph: "dense", then "dense_1"."""
    names = graph_state().names
    count = names.get((namespace, name), 0)
    names[namespace, name] = count + 1
    if zero_based:
        return f"{name}_{count}" if count else name
    return f"{name}_{count + 1}"


def track_variable(variable: Any) -> None:
    """Initialize a variable with the others when a session is first used."""
    graph_state().variables.append(variable)


def learning_phase() -> Any:
    """Return the phase: 1 while training, 0 otherwise, or the placeholder that says so (False unless fed)."""
    state = graph_state()
    if state.phase is None:
        graph: Any = outermost_graph()
        with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
            state.phase = array_ops.placeholder_with_default(False, shape=(), name="keras_learning_phase")
    return state.phase


def set_learning_phase(value: Any) -> None:
    """Fix the phase of the default graph; 0 or 1.

    Raises:
        ValueError: it is neither.
    """
    if value not in (0, 1):
        raise ValueError("Expected learning phase to be 0 or 1.")
    graph_state().phase = int(value)


def get_session() -> Any:
    """Get the session that Keras runs in: the default one, else its own; what is not initialized in it is now."""
    session = _session()
    if not _options["manual_initialization"]:
        with session.graph.as_default():
            _initialize(session)
    return session


def _session() -> Any:
    session = get_default_session()
    if session is not None:
        return session
    own = _globals.session
    if own is None or own.graph is not outermost_graph():
        make = graph_state().make_session
        own = _globals.session = new_session() if make is None else make()
        _globals.is_given = False
    return own


def new_session(target: str = "", config: Any = None) -> Any:
    """Make a session of the default graph."""
    return Session(target, graph=outermost_graph(), config=config)


def run_by(make: Callable[[], Any]) -> None:
    """Let Keras's session for the default graph be made by `make`, unless the program has given one."""
    state = graph_state()
    own = _globals.session
    if own is not None and own.graph is outermost_graph() and not _globals.is_given and state.make_session is None:
        _globals.session = None
        state.initialized.clear()
    state.make_session = make


def set_session(session: Any) -> None:
    """Run Keras in this session, where no other is the default."""
    _globals.session, _globals.is_given = session, session is not None


def manual_variable_initialization(value: bool) -> None:
    """Say whether the program initializes all variables itself."""
    _options["manual_initialization"] = value


def forget_graph() -> None:
    """Close Keras's own session."""
    _globals.session, _globals.is_given = None, False


def _initialize(session: Any) -> None:
    state = graph_state()
    found = [*state.variables]
    for optimizer in state.optimizers:
        found += optimizer.variables()
    candidates = [v for v in dict.fromkeys(found) if v not in state.initialized]
    if not candidates:
        return
    with context.get_default_graph().name_scope(None):
        ready = session.run([is_variable_initialized(v) for v in candidates])
        missing = [v for v, is_ready in zip(candidates, ready) if not is_ready]
        if missing:
            session.run(variables_initializer(missing))
    for v in candidates:
        state.initialized.add(v)


@contextlib.contextmanager
def calling(layer: Any, training: Any, inputs: Any) -> Iterator[None]:
    """Let layers called inside have the phase that this layer was called with."""
    _globals.calls.append((layer, training, inputs))
    try:
        yield
    finally:
        _globals.calls.pop()


def callers() -> list[tuple[Any, Any, Any]]:
    """Return the layers whose calls are going on, outermost first, each with its phase and inputs."""
    return _globals.calls
