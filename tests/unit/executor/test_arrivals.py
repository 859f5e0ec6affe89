"""Look-ups for several who ask, in the order in which they do."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.executor import tuner
from dtfctl.runtime.executor.adaptive import Adaptive
from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.node_graph import NodeGraph
from tests.unit.executor.harness import GraphText, LocalRendezvous, Runner

F = np.float32
HEIGHT, ROWS, WIDTH = 40, 5, 3
WORKERS = 3
VARIABLE = {"dtype": "float32", "shape": [HEIGHT, WIDTH], "container": "", "shared_name": ""}
GIVEN = {"client_terminated": False, "send_device_incarnation": -1}
TASK = "/job:worker/replica:0/task:{}/device:CPU:0"
PS = "/job:ps/replica:0/task:0/device:CPU:0"


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first step is observed."""
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    yield


def key(sender: str, receiver: str, name: str) -> str:
    return f"{sender};{2**64 - 1:016x};{receiver};{name};0:0"


def ids_key(worker: int) -> str:
    return key(TASK.format(worker), PS, f"ids{worker}")


def rows_key(worker: int) -> str:
    return key(PS, TASK.format(worker), f"rows{worker}")


def gradient_key(worker: int) -> str:
    return key(TASK.format(worker), PS, f"gradient{worker}")


def patient() -> CancellationToken:
    """Cancels itself, if after long, so that who waits in vain fails."""
    token = CancellationToken()
    timer = threading.Timer(20.0, token.cancel)
    timer.daemon = True
    timer.start()
    return token


class Ps:
    """A ps's part: rows of a table for each worker, and updates of them."""

    def __init__(self, updates: bool = True) -> None:
        self.updates = updates
        g = GraphText()
        g.add("table", "VariableV2", **VARIABLE)
        g.add("read", "Identity", "table", T="float32")
        g.const("axis", np.int32(0))
        for w in range(WORKERS):
            task = TASK.format(w)
            comes = {"send_device": task, "recv_device": PS, **GIVEN}
            g.add(f"ids{w}", "_Recv", tensor_type="int32", tensor_name=f"ids{w}", **comes)
            g.add(
                f"rows{w}",
                "GatherV2",
                "read",
                f"ids{w}",
                "axis",
                Tparams="float32",
                Tindices="int32",
                Taxis="int32",
                batch_dims=0,
            )
            goes = {"send_device": PS, "recv_device": task, **GIVEN}
            g.add(f"out{w}", "_Send", f"rows{w}", T="float32", tensor_name=f"rows{w}", **goes)
        for w in range(WORKERS if updates else 0):
            comes = {"send_device": TASK.format(w), "recv_device": PS, **GIVEN}
            g.add(f"gradient{w}", "_Recv", tensor_type="float32", tensor_name=f"gradient{w}", **comes)
            update = {"T": "float32", "Tindices": "int32", "use_locking": False}
            g.add(f"update{w}", "ScatterSub", "table", f"ids{w}", f"gradient{w}", **update)
        self.runner = Runner(GraphText().proto, PS)
        graph = NodeGraph.from_graph_def(g.proto)
        for rank, node in enumerate(graph):
            node.rank = rank
        r = self.runner
        self.executor = Executor(graph, r.device, r.resources, r.kernels)
        start = np.arange(HEIGHT * WIDTH, dtype=F).reshape(HEIGHT, WIDTH)
        kernel: Any = next(iter(graph))
        self.variable = self.executor._env.bind(kernel).call()
        self.variable.assign(start)
        self.want = start.copy()

    def step(self, arrivals: Sequence[tuple[int, Any]]) -> list[int]:
        """A step in which workers ask in that order, each when it is sure who got rows before.

        Returns:
            The workers in the order in which they got rows; those of which it was not clear are not among them.
        """
        rendezvous, token = LocalRendezvous(), patient()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                self.executor.run(self.runner.step(rendezvous, token))
            except BaseException as e:
                errors.append(e)
                token.cancel()

        thread = threading.Thread(target=run)
        thread.start()
        order: list[int] = []
        got: dict[int, Any] = {}
        for worker, ids in arrivals:
            rendezvous.send(ids_key(worker), ids, False)
            if self.is_planned:
                got[worker] = rendezvous.recv(rows_key(worker), token)[0]
                order.append(worker)
        for worker, ids in sorted(arrivals, key=lambda a: a[0]):
            rows = got[worker] if worker in got else rendezvous.recv(rows_key(worker), token)[0]
            np.testing.assert_array_equal(rows, self.want[ids])
        for worker, ids in arrivals if self.updates else ():
            gradient = np.full((len(ids), WIDTH), worker + 1, F)
            rendezvous.send(gradient_key(worker), gradient, False)
            np.subtract.at(self.want, ids, gradient)
        thread.join(60.0)
        assert not thread.is_alive() and not errors, errors
        assert not any(rendezvous._values.values()), "rows were sent twice"
        np.testing.assert_array_equal(self.variable.read(), self.want)
        return order

    @property
    def is_planned(self) -> bool:
        return isinstance(self.executor.plan, Adaptive)


def some(rng: np.random.Generator, rows: int = ROWS) -> Any:
    return rng.integers(0, HEIGHT, rows).astype(np.int32)


@pytest.fixture
def ps() -> Ps:
    made, rng = Ps(), np.random.default_rng(0)
    made.step([(w, some(rng)) for w in range(WORKERS)])
    assert made.is_planned
    return made


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_who_asks_first_gets_rows_first(ps: Ps, order: Sequence[int]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(3):
        where = ps.variable._value.ctypes.data
        assert ps.step([(w, some(rng)) for w in order]) == list(order)
        assert ps.variable._value.ctypes.data == where, "the table was copied"


def test_a_table_that_is_only_looked_at() -> None:
    ps, rng = Ps(updates=False), np.random.default_rng(4)
    ps.step([(w, some(rng)) for w in range(WORKERS)])
    assert ps.step([(w, some(rng)) for w in (2, 0, 1)]) == [2, 0, 1]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("other", range(WORKERS))
def test_one_asks_for_another_number_of_rows(ps: Ps, order: Sequence[int], other: int) -> None:
    """The interpreter makes what is left of the step, and nothing twice."""
    rng = np.random.default_rng(2)
    rendezvous, token = LocalRendezvous(), patient()
    ids = {w: some(rng, ROWS + 2 if w == other else ROWS) for w in order}
    thread = threading.Thread(target=lambda: ps.executor.run(ps.runner.step(rendezvous, token)))
    thread.start()
    got: dict[int, Any] = {}
    for w in order:
        rendezvous.send(ids_key(w), ids[w], False)
        if w == other:
            break
        got[w] = rendezvous.recv(rows_key(w), token)[0]
    for w in order[len(got) + 1 :]:
        rendezvous.send(ids_key(w), ids[w], False)
    for w in order:
        rows = got[w] if w in got else rendezvous.recv(rows_key(w), token)[0]
        np.testing.assert_array_equal(rows, ps.want[ids[w]])
    for w in order:
        gradient = np.full((len(ids[w]), WIDTH), w + 1, F)
        rendezvous.send(gradient_key(w), gradient, False)
        np.subtract.at(ps.want, ids[w], gradient)
    thread.join(60.0)
    assert not thread.is_alive()
    assert not any(rendezvous._values.values()), "rows were sent twice"
    np.testing.assert_array_equal(ps.variable.read(), ps.want)
    ps.step([(w, some(rng)) for w in order])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_one_who_asks_is_dead(ps: Ps, order: Sequence[int]) -> None:
    rng = np.random.default_rng(3)
    rendezvous, token = LocalRendezvous(), patient()
    ids = {w: some(rng) for w in order}
    thread = threading.Thread(target=lambda: ps.executor.run(ps.runner.step(rendezvous, token)))
    thread.start()
    first, *others = order
    rendezvous.send(ids_key(first), ids[first], False)
    np.testing.assert_array_equal(rendezvous.recv(rows_key(first), token)[0], ps.want[ids[first]])
    for w in others:
        rendezvous.send(ids_key(w), ids[w], w == 1)
    for w in order:
        rendezvous.send(gradient_key(w), np.ones((ROWS, WIDTH), F), False)
        if w != 1:
            np.subtract.at(ps.want, ids[w], F(1))
        if w != first:
            assert rendezvous.recv(rows_key(w), token)[1] == (w == 1)
    thread.join(60.0)
    assert not thread.is_alive()
    np.testing.assert_array_equal(ps.variable.read(), ps.want)
    ps.step([(w, some(rng)) for w in order])
