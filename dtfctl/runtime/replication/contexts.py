"""Which strategy a thread builds for, and as whom: as one replica, or for all of them.

Outside of all strategies there is the default one: a single replica.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mode:
    """Where a thread is.

    Attributes:
        strategy: the strategy in whose scope it is.
        replica: the replica's context; None across replicas.
        updates: which of a variable's copies is being updated; None elsewhere.
    """

    strategy: Any
    replica: Any = None
    updates: int | None = None


class _Entered(threading.local):
    def __init__(self) -> None:
        self.modes: list[Mode] = []


_entered = _Entered()
_global: list[Mode] = []
_default: list[Mode] = []
_make_default: list[Callable[[], Any]] = []


def set_default_strategy(make: Callable[[], Any]) -> None:
    """Say what makes the strategy of who is in none."""
    _make_default[:] = [make]
    _default.clear()


def default_strategy() -> Any:
    """Return the strategy of who is in none: one replica, and nothing done about it."""
    return _outside().strategy


def _outside() -> Mode:
    if not _default:
        strategy = _make_default[0]()
        _default.append(Mode(strategy, strategy.extended.replica_context(0)))
    return _default[0]


def current() -> Mode:
    """Return where this thread is."""
    if _entered.modes:
        return _entered.modes[-1]
    return _global[0] if _global else _outside()


@contextlib.contextmanager
def entered(mode: Mode) -> Iterator[None]:
    """Let the thread be there in a block."""
    _entered.modes.append(mode)
    try:
        yield
    finally:
        _entered.modes.pop()


@contextlib.contextmanager
def updating(index: int) -> Iterator[None]:
    """Update, in a block, that copy of each variable."""
    with entered(Mode(current().strategy, updates=index)):
        yield


def get_strategy() -> Any:
    """Return the strategy in whose scope this is; one of a single replica where it is in none."""
    return current().strategy


def has_strategy() -> bool:
    """Tell whether this is in the scope of a strategy."""
    return bool(_entered.modes or _global) and current().strategy is not default_strategy()


def in_cross_replica_context() -> bool:
    """Tell whether this is in a strategy's scope, and not within what is called for each replica."""
    return current().replica is None


def get_replica_context() -> Any:
    """Return the context of the replica that is being built; None across replicas."""
    return current().replica


def get_cross_replica_context() -> Any:
    """Return the strategy where this is across replicas; None within one."""
    mode = current()
    return mode.strategy if mode.replica is None else None


def get_update_replica_id() -> int | None:
    """Return which copy of variables is being updated; None outside of updates."""
    return current().updates


def experimental_set_strategy(strategy: Any) -> None:
    """Be in the scope of a strategy from now on, without a block; None leaves it.

    Raises:
        RuntimeError: called inside a scope.
    """
    if _entered.modes:
        raise RuntimeError("Must not be called inside a `tf.distribute.Strategy` scope.")
    while _global:
        _global.pop()
        _leave.pop().close()
    if strategy is not None and strategy is not default_strategy():
        stack = contextlib.ExitStack()
        stack.enter_context(strategy.extended.scopes())
        _leave.append(stack)
        _global.append(Mode(strategy))


_leave: list[contextlib.ExitStack] = []


@contextlib.contextmanager
def within(strategy: Any) -> Iterator[None]:
    """Be across the replicas of a strategy, or stay within the one that is being built.

    Raises:
        RuntimeError: this is in another strategy's scope.
    """
    if current().strategy is strategy:
        yield
        return
    require_none_but(strategy)
    with entered(Mode(strategy)):
        yield


def require_none_but(strategy: Any) -> None:
    """Raise RuntimeError in another strategy's scope."""
    if has_strategy() and current().strategy is not strategy:
        raise RuntimeError(
            f"Mixing different tf.distribute.Strategy objects: {current().strategy} is not {strategy}. Leave the scope "
            "of one before that of the other is entered."
        )


def require_cross_replica(strategy: Any) -> None:
    """Raise RuntimeError unless this is across the replicas of the strategy."""
    mode = current()
    if mode.strategy is strategy and mode.replica is None:
        return
    require_none_but(strategy)
    if mode.replica is not None and mode.strategy is strategy:
        raise RuntimeError("Method requires being in cross-replica context, use get_replica_context().merge_call()")
    raise RuntimeError('Need to be inside "with strategy.scope()" for ' + str(strategy))
