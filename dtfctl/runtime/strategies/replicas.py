"""Calls a function for each replica, and lets the calls meet where they merge what they have.

Each replica's call has a thread, of which one runs at a time: the first until it merges or ends, then the next. When
all wait at a merge, it is made once, across replicas, and each goes on with its part of the result.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dtfctl import guard
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.graph_stack import graph_stack, push_graph
from dtfctl.runtime.ops import variable_scope
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.contexts import Mode
from dtfctl.runtime.replication.values import regroup, select_replica
from dtfctl.runtime.strategies.shared_variables import shared_creator

_OF_ANOTHER = re.compile(r"(^|/)replica_[1-9]\d*/")


class _Stopped(BaseException):
    """Another replica has failed: this one's call is to end."""


class _Surroundings:
    """What is open in a thread: graphs, their scopes, the scope of variables."""

    def __init__(self) -> None:
        self.graphs = graph_stack() or [context.get_default_graph()]
        self.scopes = [graph.open_scopes() for graph in self.graphs]
        self.variables = variable_scope.open_scopes()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be in the same in another thread."""
        with contextlib.ExitStack() as stack:
            for graph, scopes in zip(self.graphs, self.scopes, strict=True):
                stack.enter_context(push_graph(graph))
                graph.take_scopes(scopes)
            variable_scope.take_scopes(self.variables)
            yield


class _Replica:
    """One replica's call, in a thread of its own."""

    def __init__(self, strategy: Any, index: int, device: str, around: _Surroundings, creator: Any) -> None:
        self._thread = guard.once(self._run, name=f"replica-{index}")
        self.strategy, self.index, self.device = strategy, index, device
        self.around, self.creator = around, creator
        self.graph = context.get_default_graph()
        self.call: Callable[[], Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = self.stopped = False
        self.merge: tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]] | None = None
        self.merged: Any = None
        self.scopes: dict[str, Any] = {}
        self.variables: Any = None
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)

    def start(self) -> None:
        self._thread.start()

    def advance(self) -> None:
        """Let the call go on to its next merge, or its end; raise what it has raised."""
        self._go.release()
        self._paused.acquire()
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        """End a call that waits for a merge."""
        self.stopped = True
        self._go.release()
        self._thread.join()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.stopped:
                self._call()
        except _Stopped:
            pass
        except BaseException as e:
            self.error = e
        finally:
            self.done = True
            self._paused.release()

    def _call(self) -> None:
        assert self.call is not None
        replica = self.strategy.extended.replica_context(self.index, self.wait_for_merge)
        with self.around.entered(), contexts.entered(Mode(self.strategy, replica)):
            graph = context.get_default_graph()
            scope = graph.get_name_scope()
            if self.index:
                scope = f"{scope}/replica_{self.index}" if scope else f"replica_{self.index}"
                # Variables are those of the first replica.
                current = variable_scope.get_variable_scope()
                again = variable_scope.variable_scope(current, reuse=True, auxiliary_name_scope=False)
            else:
                again = contextlib.nullcontext()  # type: ignore[assignment]
            named = graph.name_scope(f"{scope}/" if scope else None)
            with graph.device(self.device), named, again, graph.variable_creator_scope(self.creator):
                self.result = self.call()
            self.variables = variable_scope.open_scopes()

    def wait_for_merge(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Say what is to be merged, wait until it is, and return this replica's part."""
        if context.get_default_graph() is not self.graph:
            raise RuntimeError(
                "`merge_call` called while defining a new graph or a tf.function, or in a branch of tf.cond or the "
                "body of tf.while_loop. An optimizer, and the assignment of a variable, call it: they belong outside."
            )
        self.merge, self.scopes = (function, args, kwargs), self.graph.open_scopes()
        self.variables = variable_scope.open_scopes()
        self._paused.release()
        self._go.acquire()
        if self.stopped:
            raise _Stopped
        self.merge = None
        return self.merged


def call_for_each_replica(
    strategy: Any, devices: Sequence[str], function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function once for each device, as the replica that is there; values of replicas are given each its own.

    Raises:
        RuntimeError: the calls merge different numbers of times. AssertionError: they give different structures.
    """
    around = _Surroundings()
    shared: dict[str, list[Any]] = {}
    replicas = [_Replica(strategy, i, device, around, shared_creator(shared, i)) for i, device in enumerate(devices)]
    for i, replica in enumerate(replicas):
        replica.call = _bound(function, select_replica(i, tuple(args)), select_replica(i, dict(kwargs)))
        replica.start()
    try:
        while True:
            for replica in replicas:
                replica.advance()
            waiting = [r for r in replicas if r.merge is not None and not r.done]
            if not waiting:
                break
            if len(waiting) < len(replicas):
                raise RuntimeError("Some replicas made a different number of replica_context().merge_call() calls.")
            _merge(strategy, replicas)
    finally:
        for replica in replicas:
            replica.end()
    _keep_summaries_of_first(context.get_default_graph())
    # Scopes that were opened by their default names are counted on.
    variable_scope.take_scopes((variable_scope.get_variable_scope(), replicas[0].variables[1]))
    return regroup([r.result for r in replicas])


def _keep_summaries_of_first(graph: Any) -> None:
    """Take out of the collection what other replicas have summarized: they say the same under other names."""
    if GraphKeys.SUMMARIES in graph.get_all_collection_keys():
        found = graph.get_collection_ref(GraphKeys.SUMMARIES)
        found[:] = [summary for summary in found if not _OF_ANOTHER.search(summary.op.name)]


def _bound(function: Callable[..., Any], args: Any, kwargs: Any) -> Callable[[], Any]:
    return lambda: function(*args, **kwargs)


def _merge(strategy: Any, replicas: Sequence[_Replica]) -> None:
    """Make, across replicas, the merge that all of them wait for, in the scopes that the first one is in."""
    first, graph = replicas[0], replicas[0].graph
    merges = [r.merge for r in replicas if r.merge is not None]
    args = regroup([tuple(m[1]) for m in merges])
    kwargs = regroup([dict(m[2]) for m in merges])
    own, own_variables = graph.open_scopes(), variable_scope.open_scopes()
    controls = {id(block): block for r in replicas for block in r.scopes["controls"]}
    graph.take_scopes({**own, "name": first.scopes["name"], "controls": list(controls.values())})
    variable_scope.take_scopes(first.variables)
    try:
        with contexts.entered(Mode(strategy)):
            result = merges[0][0](strategy, *args, **kwargs)
    finally:
        graph.take_scopes(own)
        variable_scope.take_scopes(own_variables)
    for i, replica in enumerate(replicas):
        replica.merged = select_replica(i, result)
