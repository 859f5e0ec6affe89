"""The signatures a session has compiled, each with its partitions registered with their tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from dtfctl.protocol import graphs_pb2
from dtfctl.runtime.compiler.collectives import graph_key_of
from dtfctl.runtime.executor.keys import ClientEnds
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.services.client_plans import quiet_parts
from dtfctl.runtime.services.compilation import SessionGraph
from dtfctl.runtime.services.compiled_step import CompiledStep
from dtfctl.runtime.services.tasks import LocalTask, RemotePart, RemoteTask
from dtfctl.runtime.steps.coordinator import Parts
from dtfctl.runtime.steps.worker_session import Partition

# Feeds, fetches, targets, whether it is for partial runs, whether clients meet all tasks (see `compile_step`), and the
# graph key.
_Key: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], bool, bool, int]


class Signatures:
    """All methods may be called from any thread.

    Args:
        session: its handle.
        local, remote: the tasks it may use, the others by name.
        graph: its graph.
        lock: held by whoever reads or extends the graph.
    """

    def __init__(
        self,
        session: str,
        local: LocalTask,
        remote: Mapping[str, RemoteTask],
        graph: SessionGraph,
        lock: threading.Lock,
    ) -> None:
        self._session = session
        self._local = local
        self._remote = remote
        self._graph = graph
        self._lock = lock
        # As asked for, and without regard to order and repetition.
        self._exact: dict[_Key, CompiledStep] = {}
        self._compiled: dict[_Key, CompiledStep] = {}

    def get(
        self,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        partial: bool = False,
        everywhere: bool = False,
        graph_key: int = 0,
    ) -> CompiledStep:
        """Get the compiled step of a signature, made at its first use.

        Args:
            graph_key: what its steps are numbered by in groups (`collective/step_ids.py`); 0: what the graph gives.

        Raises:
            OpError: the signature or the graph is at fault, or a task cannot be reached.
        """
        exact = tuple(feeds), tuple(fetches), tuple(targets), partial, everywhere, graph_key
        found = self._exact.get(exact)
        if found is not None:
            return found
        unique = tuple(sorted(set(fetches))), tuple(sorted(set(targets)))
        key = tuple(sorted(feeds)), *unique, partial, everywhere, graph_key
        with self._lock:
            found = self._compiled.get(key)
            if found is None:
                found = self._compiled[key] = self._compile(*key)
                if everywhere and not found.remote:
                    # Everywhere is here, then.
                    self._compiled.setdefault((*key[:3], partial, False, graph_key), found)
            self._exact[exact] = found
        return found

    def _compile(
        self,
        feeds: tuple[str, ...],
        fetches: tuple[str, ...],
        targets: tuple[str, ...],
        partial: bool,
        everywhere: bool,
        graph_key: int,
    ) -> CompiledStep:
        parts = self._graph.compile(feeds, fetches, targets, everywhere)
        ends = {task: ClientEnds.of(graph) for task, graph in parts.items()} if everywhere else {}
        quiet = quiet_parts(parts, ends) if everywhere else frozenset[str]()
        graph_key = graph_key or graph_key_of(parts.values())
        own = parts.pop(self._local.task, None)
        local: Partition | None = None
        remote: list[tuple[RemoteTask, int]] = []
        begun: list[tuple[RemoteTask, Callable[[], int]]] = []
        errors: list[OpError] = []
        # All tasks plan their parts at the same time.
        try:
            for task, graph in parts.items():
                peer = self._remote[task]
                begun.append((peer, peer.begin_register(self._session, graph, partial, graph_key)))
            if own is not None:
                local = self._local.register(self._session, own, partial, graph_key)
        except OpError as e:
            errors.append(e)
        for peer, handle in begun:
            try:
                remote.append((peer, handle()))
            except OpError as e:
                errors.append(e)
        if errors:
            self._deregister(local, remote)
            raise errors[0]
        return CompiledStep(
            feeds,
            fetches,
            {f: t for f in feeds if (t := self._graph.tensor_type(f)) is not None},
            local,
            Parts([task.task for task, _ in remote] + [self._local.task] * (local is not None), quiet),
            {task.task: RemotePart.of(task, handle) for task, handle in remote},
            ends,
        )

    def steps(self) -> list[graphs_pb2.StepSignature]:
        """List the steps that were asked for, apart from those of partial runs. Hold the lock of the graph."""
        found: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], bool] = {}
        for feeds, fetches, targets, partial, everywhere, _ in self._compiled:
            if not partial:
                known = found.get((feeds, fetches, targets), False)
                found[feeds, fetches, targets] = known or everywhere
        return [
            graphs_pb2.StepSignature(feed=feeds, fetch=fetches, target=targets, everywhere=everywhere)
            for (feeds, fetches, targets), everywhere in found.items()
        ]

    def clear(self) -> None:
        """Forget all of them; their partitions go with the session."""
        self._exact.clear()
        self._compiled.clear()

    def _deregister(self, local: Partition | None, remote: Sequence[tuple[RemoteTask, int]]) -> None:
        if local is not None:
            self._local.deregister(self._session, local.handle)
        for task, handle in remote:
            task.deregister(self._session, handle)
