"""What a kernel may know of the step it runs in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compression.payoff import Ledger
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.collective_request import CollectiveExchange


class Rendezvous(Protocol):
    """Where tensors of one step are left and picked up, on this device, in this process or from another task."""

    def send(self, key: str, value: Any, dead: bool) -> None:
        """Leave a value; never waits."""

    def recv(self, key: str, cancellation: CancellationToken) -> tuple[Any, bool]:
        """Wait for the value and whether it is dead."""

    def first(self, keys: Sequence[str], cancellation: CancellationToken) -> int:
        """Wait until `recv` of one of these keys need not wait; which of them."""

    def recv_async(self, key: str, done: Callable[[Any, bool, OpError | None], None]) -> None:
        """Have `done(value, dead, error)` called once the value is there, or the rendezvous is aborted.

        `done` never blocks and may be called in any thread, also before this returns.
        """

    def wait(self, came: Callable[[], str]) -> None:
        """Have a thread wait that has nothing to do until a value comes; `came` waits, and tells for which key."""

    def ledger(self, task: str) -> Ledger | None:
        """Find what is known of codecs on the way to another task; None where nothing crosses a network."""


class PreparedFunction(Protocol):
    """A function of the library, ready to run."""

    def __call__(self, inputs: Sequence[Any], step: StepContext) -> list[Any]:
        """Run the function, and return its outputs for these inputs."""

    def then(self, condition: PreparedFunction) -> PreparedFunction | None:
        """Return this body of a loop with one more output, the loop's condition of the others; None where it has
        effects, or is no single value.
        """

    def lists_of_loop(self, condition: PreparedFunction) -> frozenset[int]:
        """Find the values of a loop with this body that are tensor lists which it may change in place."""

    def unread(self) -> frozenset[int]:
        """Find the arguments that nothing takes."""


class FunctionCaller(Protocol):
    """Runs functions of the session's library inside a step."""

    def call(self, function: graph_pb2.NameAttrList, inputs: Sequence[Any], step: StepContext) -> list[Any]:
        """Run a function on the device of `step`, and return its outputs for these inputs."""

    def prepare(self, function: graph_pb2.NameAttrList) -> PreparedFunction:
        """Make a function ready to be called again and again: looked up, instantiated and planned at its first call."""

    def of_graph(self, graph: graph_pb2.GraphDef) -> tuple[FunctionCaller, PreparedFunction]:
        """Make a function without arguments of a graph, and what runs the functions in that graph's own library."""

    def may_block(self, function: graph_pb2.NameAttrList) -> bool:
        """Tell whether running the function may wait for other nodes or steps."""


@dataclass(slots=True)
class StepContext:
    """One device's part of one step.

    Attributes:
        step_id: nonzero; the same in all tasks of the step.
        device: where the kernel runs.
        resources: named state, of the device or of an isolated session.
        step_resources: state that ends with the step.
        cancellation: set when the step must stop; whatever waits observes it.
        rendezvous, functions: see their protocols.
        trace: where nodes' timings are recorded (`executor.trace.StepTrace`), or None.
        collectives: the groups that devices of the session are in; None where there is no session.
        feeds_others: it fills a queue, and works ahead of the steps that empty it.
        frame: "FRAME:ITERATION" of the node that runs; "0:0" outside loops. Part of rendezvous keys.
    """

    step_id: int
    device: Device
    resources: ResourceManager
    step_resources: ResourceManager
    cancellation: CancellationToken
    rendezvous: Rendezvous
    functions: FunctionCaller
    frame: str = "0:0"
    session_handle: str = ""
    trace: Any = field(default=None)
    collectives: CollectiveExchange | None = None
    feeds_others: bool = False
