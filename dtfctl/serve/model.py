"""The model that is served: its versions, of which the right ones are loaded, and switched without a gap."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dtfctl import guard
from dtfctl.errors import DtfctlError
from dtfctl.protocol.serving_pb2 import ModelVersionStatus
from dtfctl.runtime.framework.errors import (
    Code,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnavailableError,
)
from dtfctl.serve import sources
from dtfctl.serve.batching import LOST, Arrays
from dtfctl.serve.signatures import Signature
from dtfctl.serve.sources import NoModel, Policy, Source
from dtfctl.serve.versions import Version
from dtfctl.values import value

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""How often to look for other versions, as often as TensorFlow Serving does."""
SETTLED_NS = 500_000_000
"""A version is taken once what it consists of has not changed for so long: it may still be being written."""
AGAIN_S = 10.0
"""A version that could not be loaded is tried again after so long: its files may not have been complete."""
STATE = ModelVersionStatus


@value
class State:
    """How one version is; `state` as in `ModelVersionStatus`."""

    state: int
    code: int = 0
    message: str = ""


@value
class Asked:
    """What a client asks."""

    version: int | None
    """None: that of the label, or the newest."""
    signature: str = ""
    outputs: tuple[str, ...] = ()
    """None: all."""
    until: float = 0.0
    label: str = ""


class Model:
    """Serves from `start` until `close`. Any thread.

    Args:
        changed: called whenever other versions answer than before.
    """

    def __init__(
        self,
        name: str,
        path: str,
        policy: Policy,
        load: Callable[[Source], Version],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._changed = changed
        self._path = path
        self._policy = policy
        self._load = load
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._versions: dict[int, Version] = {}
        self._states: dict[int, State] = {}
        self._failed: dict[Source, float] = {}
        self._labels: dict[str, int] = {}
        self._said = ""
        self._closing = threading.Event()
        self.requests = 0

    def start(self) -> None:
        """Load what is there and look for changes from then on.

        Raises:
            DtfctlError, OSError, ValueError, KeyError: nothing could be loaded.
        """
        found = sources.find(self._path)
        chosen = self._policy.choose(found)
        if not chosen:
            raise NoModel(f"{self._path} has none of the versions that are asked for")
        self._failed.clear()
        problem = self._turn_to(chosen)
        if not self._versions and not isinstance(problem, LOST):
            self._turn_to_older(source for source in found if source not in chosen)
        if not self._versions:
            assert problem is not None
            raise problem
        self._read_labels(self._versions)
        self._changed()
        guard.forever(self._watch, name="versions").start()

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            left, self._versions = list(self._versions.values()), {}
        for version in left:
            version.close()

    # ------------------------------------------------------------------ what clients ask

    def number(self, label: str) -> int:
        """Tell which version has a label.

        Raises:
            InvalidArgumentError: none.
        """
        found = self._labels.get(label)
        if found is None:
            raise InvalidArgumentError(f"Unrecognized servable version label: {label}")
        return found

    def find(self, number: int | None, label: str = "") -> Version:
        """Find a version that is served; None: that of the label, or the newest.

        Raises:
            NotFoundError: there is none, UnavailableError: not yet. InvalidArgumentError: there is no such label.
        """
        while True:
            wanted = self.number(label) if label else number
            served = self._versions
            found = served.get(max(served, default=-1) if wanted is None else wanted)
            if found is not None:
                return found
            # A version that goes has lost its labels to others before.
            if not label or self.number(label) == wanted:
                break
        which = f"Latest({self.name})" if wanted is None else f"Specific({self.name}, {wanted})"
        if wanted is None and not self._closing.is_set():
            raise UnavailableError(f"Servable is not ready yet for request: {which}")
        raise NotFoundError(f"Servable not found for request: {which}")

    def signature(self, version: Version, name: str) -> Signature:
        """Find a signature.

        Raises:
            InvalidArgumentError: the version has none of that name.
        """
        found = version.signature(name)
        if found is None:
            known = ", ".join(sorted(version.signatures))
            raise InvalidArgumentError(
                f'Serving signature name: "{name}" not found in signature def; there are {known}'
            )
        return found

    def ask(
        self, asked: Asked, read: Callable[[Signature], Arrays]
    ) -> tuple[Version, Signature, dict[str, np.ndarray[Any, Any]]]:
        """Compute what is asked, of the inputs that `read` gives for its signature.

        Raises:
            OpError.
        """
        self.requests += 1
        while True:
            version = self.find(asked.version, asked.label)
            signature = self.signature(version, asked.signature)
            known = [port.alias for port in signature.outputs]
            strange = set(asked.outputs) - set(known)
            if strange:
                raise InvalidArgumentError(f"output tensor alias not found in signature: {', '.join(sorted(strange))}")
            outputs = tuple(alias for alias in known if alias in asked.outputs) if asked.outputs else tuple(known)
            try:
                found = version.run(signature, outputs, read(signature), asked.until)
            except UnavailableError:
                # It was replaced in this moment: its successor answers.
                if asked.version is not None or self.find(None, asked.label) is version:
                    raise
                continue
            return version, signature, dict(zip(outputs, found))

    def states(self, number: int | None = None) -> dict[int, State]:
        """Tell how versions are, all or one.

        Raises:
            NotFoundError: it was never there.
        """
        with self._lock:
            states = dict(self._states)
        if number is None:
            return states
        if number not in states:
            raise NotFoundError(f"Could not find version {number} of model {self.name}")
        return {number: states[number]}

    @property
    def versions(self) -> Mapping[int, Version]:
        """The versions that answer."""
        return self._versions

    @property
    def ready(self) -> bool:
        """Whether the newest version has a task that computes."""
        served = self._versions
        return bool(served) and bool(served[max(served)].tasks)

    # ------------------------------------------------------------------ versions that come and go

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_S):
            self.look()

    def look(self) -> None:
        """Look once for versions that have come or gone; one thread after the other."""
        with self._looking:
            try:
                found = sources.find(self._path)
            except (NoModel, OSError):
                return  # what is served stays: a folder may be away while it is replaced
            settled = [source for source in found if time.time_ns() - source.stamp > SETTLED_NS]
            chosen = self._policy.choose(settled)
            if chosen:
                before = self._versions
                # Before a version goes its labels have moved on, and not before the next one answers.
                self._turn_to(chosen, self._read_labels)
                if self._versions is not before:
                    self._changed()

    def _read_labels(self, served: Collection[int]) -> None:
        """Look for labels; those from before stay while their file makes no sense, or their new version is not served.

        Args:
            served: the versions that will answer from now on.
        """
        said = ""
        try:
            found = sources.labels(self._path)
        except NoModel as error:
            said = str(error)
        else:
            for label, number in found.items():
                before = self._labels.get(label)
                if before is not None and before in served and number not in served:
                    said = f"label {label} stays with version {before}: version {number} is not served"
                    found[label] = before
            self._labels = found
        if said and said != self._said:
            log.error("%s", said)
        self._said = said

    def _turn_to(
        self, chosen: Sequence[Source], loaded: Callable[[Collection[int]], None] = lambda served: None
    ) -> Exception | None:
        """Load what is new, tell `loaded` what stays, then give up the rest: there is a version at every moment."""
        problem: Exception | None = None
        served = self._versions
        for source in chosen:
            now = served.get(source.version)
            again = time.monotonic() - self._failed.get(source, float("-inf")) > AGAIN_S
            if (now is None or now.source != source) and again and not self._closing.is_set():
                problem = self._begin(source) or problem
        kept = {source.version for source in chosen} & self._versions.keys()
        loaded(kept or self._versions)
        if not kept:
            return problem  # nothing of it could be loaded
        for number in [number for number in self._versions if number not in kept]:
            self._end(number)
        return problem

    def _turn_to_older(self, others: Iterable[Source]) -> None:
        """Load the newest that can be: as if this had gone on from before those came that cannot."""
        if self._policy.latest:
            for source in sorted(others, key=lambda source: source.version, reverse=True):
                self._turn_to([source])
                if self._versions:
                    return

    def _begin(self, source: Source) -> Exception | None:
        self._say(source.version, State(STATE.LOADING))
        began = time.monotonic()
        try:
            version = self._load(source)
        except (DtfctlError, OSError, ValueError, KeyError) as error:
            code = int(error.error_code) if isinstance(error, OpError) else int(Code.INVALID_ARGUMENT)
            log.error("version %d cannot be loaded: %s", source.version, error)
            self._failed[source] = time.monotonic()
            if source.version in self._versions:
                self._say(source.version, State(STATE.AVAILABLE))
            else:
                self._say(source.version, State(STATE.END, code, str(error)))
            return error
        with self._lock:
            former = self._versions.get(source.version)
            self._versions = {**self._versions, source.version: version}
        self._say(source.version, State(STATE.AVAILABLE))
        log.info("version %d is served after %.2f s", source.version, time.monotonic() - began)
        if former is not None:
            former.close()
        return None

    def _end(self, number: int) -> None:
        self._say(number, State(STATE.UNLOADING))
        with self._lock:
            left = dict(self._versions)
            version = left.pop(number)
            self._versions = left
        version.close()
        self._say(number, State(STATE.END))
        log.info("version %d is served no more", number)

    def _say(self, number: int, state: State) -> None:
        with self._lock:
            self._states[number] = state
