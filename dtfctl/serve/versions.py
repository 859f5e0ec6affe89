"""One version of a model on all its tasks: loaded, warmed up, brought back where a task was lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl import guard
from dtfctl.errors import DtfctlError
from dtfctl.runtime.framework.errors import OpError
from dtfctl.serve.batching import LOST, Arrays, Batcher
from dtfctl.serve.loading import LoadedModel, Names
from dtfctl.serve.signatures import DEFAULT, Signature
from dtfctl.serve.sources import Source
from dtfctl.serve.warmup import warm_up

log = logging.getLogger(__name__)

AGAIN_S = 0.1
LONGEST_S = 5.0
"""How long to wait before a task that is not there yet is tried again, at first and at last."""
DRAIN_S = 30.0


class Version:
    """A version that answers, from its making until `close`. Any thread.

    Attributes:
        source: where it lies.
        signatures, definitions: see `LoadedModel`.
    """

    def __init__(self, source: Source, names: Names, target: str, tasks: Sequence[str], most_rows: int) -> None:
        """Load it on all tasks and warm it up; it answers once one has it.

        Raises:
            DtfctlError, OSError: it cannot be loaded.
        """
        self.source = source
        self._load: Callable[[str], LoadedModel] = lambda task: LoadedModel(source, names, target, task)
        self._most_rows = most_rows
        self._batcher = Batcher(most_rows, self._lost)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._copies: dict[str, LoadedModel] = {}
        first = self._first(tasks)
        self.signatures, self.definitions = first.signatures, first.definitions
        self._use(first)
        for task in tasks:
            if task != first.task:
                self._bring_back(task, "load")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that have it now."""
        with self._lock:
            return tuple(sorted(self._copies))

    @property
    def steps(self) -> int:
        return self._batcher.steps

    @property
    def waiting(self) -> int:
        return self._batcher.waiting

    def signature(self, name: str) -> Signature | None:
        """Find a signature by name; of none, or of the only one where no default is marked as such."""
        found = self.signatures.get(name or DEFAULT)
        if found is None and not name and len(self.signatures) == 1:
            return next(iter(self.signatures.values()))
        return found

    def run(self, signature: Signature, outputs: tuple[str, ...], values: Arrays, until: float) -> list[Any]:
        """Check inputs and compute outputs of them; see `Batcher.run`."""
        signature.check(values)
        return self._batcher.run(signature, outputs, values, until)

    def close(self) -> None:
        """Answer what was asked before, then give the tasks' memory back."""
        self._batcher.close(DRAIN_S)
        self._closed.set()
        with self._lock:
            left, self._copies = list(self._copies.values()), {}
        for copy in left:
            copy.close()

    # ------------------------------------------------------------------ tasks that come and go

    def _first(self, tasks: Sequence[str]) -> LoadedModel:
        """Load it on any task: one that is away must not keep the others from answering."""
        problem: OpError | None = None
        for task in tasks:
            try:
                return self._load(task)
            except LOST as error:
                problem = error
        assert problem is not None
        raise problem

    def _use(self, copy: LoadedModel) -> None:
        warm_up(copy, self.source, self._most_rows)
        with self._lock:
            if not self._closed.is_set():
                self._copies[copy.task] = copy
                self._batcher.add(copy)
                return
        copy.close()

    def _lost(self, copy: LoadedModel) -> None:
        with self._lock:
            if self._copies.get(copy.task) is not copy:
                return
            del self._copies[copy.task]
        log.warning("version %d: %s is lost", self.source.version, copy.task or "its session")
        self._bring_back(copy.task, "bring back", copy)

    def _bring_back(self, task: str, what: str, former: LoadedModel | None = None) -> None:
        guard.once(self._try_until_there, args=(task, what, former), name=f"{what} {task}").start()

    def _try_until_there(self, task: str, what: str, former: LoadedModel | None) -> None:
        began, pause = time.monotonic(), AGAIN_S
        if former is not None:
            former.close()
        while not self._closed.is_set():
            try:
                self._use(self._load(task))
            except (DtfctlError, OSError) as error:
                log.warning("version %d: cannot %s it on %s yet: %s", self.source.version, what, task, error)
                self._closed.wait(pause)
                pause = min(2 * pause, LONGEST_S)
                continue
            log.info("version %d: on %s after %.2f s", self.source.version, task, time.monotonic() - began)
            return
