"""What a Session needs from a master, wherever that is, and the one for masters of this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from dtfctl.protocol import config_pb2, device_pb2, graph_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.memory.sharing import given_away
from dtfctl.runtime.services.compiled_step import StepOptions
from dtfctl.runtime.services.master import Master
from dtfctl.runtime.services.master_session import MasterSession
from dtfctl.runtime.services.partial_run import PartialRuns

Prepared = Callable[[list[Any]], list[Any]]
"""Runs plain steps of one signature, from fed to fetched values."""


class Backend(Protocol):
    """One session of a master. Everything may raise OpError. Values are arrays; names are graph names."""

    def create(self, graph_def: graph_pb2.GraphDef) -> None:
        """Make the session; called once, before anything else."""

    def extend(self, graph_def: graph_pb2.GraphDef) -> None:
        """Add nodes."""

    def run(
        self,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: config_pb2.RunOptions | None = None,
        metadata: config_pb2.RunMetadata | None = None,
    ) -> list[Any]:
        """Run a step; the fetched values in order."""

    def prepare(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], graph_key: int = 0
    ) -> Prepared:
        """Give what runs plain steps of a signature, with values in that order.

        Args:
            graph_key: `collective_graph_key` of their RunOptions, which have nothing else; 0: they have no RunOptions.
        """

    def partial_run_setup(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> str: ...

    def partial_run(self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]) -> list[Any]: ...

    def make_callable(self, options: config_pb2.CallableOptions) -> int: ...

    def run_callable(
        self, handle: int, values: Sequence[Any], metadata: config_pb2.RunMetadata | None = None
    ) -> list[Any]: ...

    def release_callable(self, handle: int) -> None: ...

    def list_devices(self) -> list[device_pb2.DeviceAttributes]: ...

    def close(self) -> None:
        """Close the session; nothing if it was never made."""


class LocalBackend:
    """A session of a master in this process: arrays go through as they are."""

    def __init__(self, master: Master, config: config_pb2.ConfigProto) -> None:
        self._master = master
        self._config = config
        self._session: MasterSession | None = None
        self._partial: PartialRuns | None = None

    def _made(self) -> MasterSession:
        if self._session is None:
            raise InvalidArgumentError("A session is not created yet....")
        return self._session

    def create(self, graph_def: graph_pb2.GraphDef) -> None:
        self._session = self._master.create_session(graph_def, self._config)
        self._partial = PartialRuns(self._session)

    def extend(self, graph_def: graph_pb2.GraphDef) -> None:
        self._made().extend(graph_def)

    def run(
        self,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: config_pb2.RunOptions | None = None,
        metadata: config_pb2.RunMetadata | None = None,
    ) -> list[Any]:
        session = self._made()
        if options is None and metadata is None:
            values = session.run(feeds, fetches, targets)
        else:
            values = session.run(feeds, fetches, targets, StepOptions(options, metadata))
        return own_values(values)

    def prepare(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], graph_key: int = 0
    ) -> Prepared:
        prepared = self._made().prepare(feeds, fetches, targets, graph_key)
        return prepared if prepared.direct is None else prepared.direct

    def partial_run_setup(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> str:
        self._made()
        assert self._partial is not None
        return self._partial.setup(feeds, fetches, targets)

    def partial_run(self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]) -> list[Any]:
        self._made()
        assert self._partial is not None
        return own_values(self._partial.run(handle, feeds, fetches))

    def make_callable(self, options: config_pb2.CallableOptions) -> int:
        return self._made().make_callable(options)

    def run_callable(
        self, handle: int, values: Sequence[Any], metadata: config_pb2.RunMetadata | None = None
    ) -> list[Any]:
        return own_values(self._made().run_callable(handle, values, StepOptions(None, metadata)))

    def release_callable(self, handle: int) -> None:
        self._made().release_callable(handle)

    def list_devices(self) -> list[device_pb2.DeviceAttributes]:
        return self._made().list_devices()

    def close(self) -> None:
        # When the interpreter ends, what is in this process ends with it; no thread can be started any more.
        if self._session is not None and not sys.is_finalizing():
            self._master.close_session(self._session.handle)


def graph_key_alone(options: config_pb2.RunOptions | None) -> int:
    """Return the `collective_graph_key` of RunOptions that have nothing else, else 0."""
    if options is None:
        return 0
    asked = options.ListFields()
    if len(asked) != 1 or asked[0][0].name != "experimental" or len(options.experimental.ListFields()) != 1:
        return 0
    return options.experimental.collective_graph_key


def as_host(value: Any) -> Any:
    """Turn a fetched value into what clients get: an array for tensors, a scalar for rank 0 (bytes for a string)."""
    if isinstance(value, np.ndarray):
        return value[()] if value.ndim == 0 else value
    if hasattr(value, "get") and hasattr(value, "device"):
        return as_host(value.get())
    return value


def own_values(values: list[Any]) -> list[Any]:
    """Turn fetched values into the client's own: what a variable or constant still holds is copied."""
    for i in range(len(values)):
        if isinstance(values[i], np.ndarray) and values[i].ndim:
            values[i] = given_away(values, i)
        else:
            values[i] = as_host(values[i])
    return values
