"""What a session keeps of a signature, and how a step of it is to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtfctl.protocol import config_pb2
from dtfctl.runtime.executor.keys import ClientEnds
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.services.tasks import RemotePart
from dtfctl.runtime.steps.coordinator import Parts
from dtfctl.runtime.steps.worker_session import Partition


@dataclass(eq=False)
class CompiledStep:
    """A signature's partitions, registered with their tasks.

    Attributes:
        feed_types: what each fed tensor must hold.
        local: the part of the master's own task, if it has one.
        parts: of all tasks, the master's own last. Quiet ones (see `client_plans.quiet_parts`) only where clients run
            them.
        remote: the parts of other tasks, by task.
        ends: what is fed to and fetched from each task, where that is not all in the master's.
        is_long: its last step took long, or there was none yet; see `abandon.py`.
    """

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    feed_types: dict[str, DType]
    local: Partition | None
    parts: Parts
    remote: dict[str, RemotePart]
    ends: dict[str, ClientEnds] = field(default_factory=dict)
    runs: int = 0
    is_long: bool = True


def check_feeds(feeds: Iterable[tuple[str, Any]], types: Mapping[str, DType]) -> None:
    """Refuse fed values, given with their names, of other types than the graph expects.

    Raises:
        InvalidArgumentError.
    """
    for name, value in feeds:
        want = types.get(name)
        if want is not None and value.dtype is not want.np and value.dtype != want.np:
            raise InvalidArgumentError(
                f"Tensor {name} was fed a value of type {np.dtype(value.dtype).name}, the graph expects {want.name}"
            )


@dataclass
class StepOptions:
    """How to run one step; not changed once it was looked at.

    Attributes:
        options: the client's RunOptions, if any.
        metadata: filled in when the options ask for it.
        cancellation: cancels the step from outside, as when the client is gone.
        is_waited_for: the step's caller returns only with it; False where whoever gives `cancellation` does not wait
            for what is told to end.
        wants_costs: describe in the metadata what each node costs.
        is_plain: nothing is asked but the values, and nobody cancels it whom its caller would have to wait for.
        wants_stats, wants_graphs: what the client asked for.
        traced, graphs_sent: what parts are asked for.
        reports: its parts report more than that they have ended.
    """

    options: config_pb2.RunOptions | None = None
    metadata: config_pb2.RunMetadata | None = None
    cancellation: CancellationToken | None = None
    wants_costs: bool = False
    is_waited_for: bool = True
    is_plain: bool = field(init=False)
    wants_stats: bool = field(init=False)
    wants_graphs: bool = field(init=False)
    traced: bool = field(init=False)
    graphs_sent: bool = field(init=False)
    reports: bool = field(init=False)

    def __post_init__(self) -> None:
        options = self.options
        self.is_plain = (
            options is None and self.metadata is None and (self.cancellation is None or not self.is_waited_for)
        )
        self.wants_stats = options is not None and options.trace_level != config_pb2.RunOptions.NO_TRACE
        self.wants_graphs = options is not None and options.output_partition_graphs
        self.traced = self.wants_stats or self.wants_costs
        self.graphs_sent = self.wants_graphs or self.wants_costs
        self.reports = self.traced or self.graphs_sent
