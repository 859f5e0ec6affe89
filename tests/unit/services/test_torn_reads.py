"""A variable that is read while it is updated is read as it was before an update or after it, never half of each.

Every update changes all elements alike, so a value whose elements differ is of two updates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.grpc_backend import GrpcBackend
from tests.support.clusters import InProcessCluster, in_process_cluster

pytestmark = pytest.mark.slow
ROWS, WIDTH = 1024, 1024
PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
# How many reads a test makes: enough to see most of what is torn, and enough to see all.
every_count = pytest.mark.parametrize("reads", [8, pytest.param(600, marks=pytest.mark.nightly)])


def _optimizer(make: Callable[[], Any]) -> Callable[[Any], list[Any]]:
    def updates(v: Any) -> list[Any]:
        one = tf.ones([ROWS, WIDTH])
        return [make().apply_gradients([(one, v)])]

    return updates


def _sparse(make: Callable[[], Any]) -> Callable[[Any], list[Any]]:
    def updates(v: Any) -> list[Any]:
        every = tf.constant(np.random.RandomState(0).permutation(ROWS).astype(np.int32))
        return [make().apply_gradients([(tf.IndexedSlices(tf.ones([ROWS, WIDTH]), every, [ROWS, WIDTH]), v)])]

    return updates


def _assign(v: Any) -> list[Any]:
    return [tf.assign(v, tf.fill([ROWS, WIDTH], float(i))) for i in range(3)]


def _assign_add(v: Any) -> list[Any]:
    return [tf.assign_add(v, tf.ones([ROWS, WIDTH])), tf.assign_sub(v, tf.fill([ROWS, WIDTH], 2.0))]


def _scatter(v: Any) -> list[Any]:
    every = tf.constant(np.random.RandomState(0).permutation(ROWS).astype(np.int32))
    one = tf.ones([ROWS, WIDTH])
    found = [tf.scatter_nd_add(v, every[:, None], one)]
    return [tf.scatter_add(v, every, one), tf.scatter_sub(v, every, 2 * one), *found]


def _slices(v: Any) -> list[Any]:
    every = tf.strided_slice(v, [0], [ROWS], var=v)
    return [every.assign(tf.fill([ROWS, WIDTH], float(i))) for i in range(3)]  # type: ignore[attr-defined]


WRITERS: dict[str, Callable[[Any], list[Any]]] = {
    "assign": _assign,
    "assign_add": _assign_add,
    "slices": _slices,
    "sgd": _optimizer(lambda: tf.train.GradientDescentOptimizer(0.5, use_locking=True)),
    "momentum": _optimizer(lambda: tf.train.MomentumOptimizer(0.5, 0.9, use_locking=True)),
    "adam": _optimizer(lambda: tf.train.AdamOptimizer(0.5, use_locking=True)),
    "rmsprop": _optimizer(lambda: tf.train.RMSPropOptimizer(0.5, use_locking=True)),
    "adagrad": _optimizer(lambda: tf.train.AdagradOptimizer(0.5, use_locking=True)),
    "ftrl": _optimizer(lambda: tf.train.FtrlOptimizer(0.5, use_locking=True)),
    "scatter": _scatter,
    "sparse sgd": _sparse(lambda: tf.train.GradientDescentOptimizer(0.5, use_locking=True)),
    "sparse adam": _sparse(lambda: tf.train.AdamOptimizer(0.5, use_locking=True)),
}


class Program:
    """A variable, what writes it, and values of it as they are read."""

    def __init__(self, writer: str, use_resource: bool, home: str | None = None, reader: str | None = None) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(home):
            v = tf.get_variable("v", [ROWS, WIDTH], initializer=tf.zeros_initializer(), use_resource=use_resource)
            self.updates = WRITERS[writer](v)
            with tf.device(reader):
                self.value = tf.identity(v.read_value() if use_resource else v)
            # The slots of an optimizer, which it changes in place, are read too.
            others = [w for w in tf.global_variables() if w is not v and w.shape == v.shape]
            self.values = [self.value, *(tf.identity(w) for w in others)]
            self.init = tf.global_variables_initializer()


def is_whole(value: Any) -> bool:
    return bool((value == value.flat[0]).all())


def read_beside_writes(program: Program, writing: Any, reading: Any, reads: int) -> tuple[int, int]:
    """How many values were read while others wrote, and how many of them were torn."""
    writing.run(program.init)
    read, torn = 0, 0
    done = threading.Event()
    errors: list[BaseException] = []

    def write(n: int) -> None:
        try:
            while not done.is_set():
                writing.run(program.updates[n % len(program.updates)])
                n += 1
        except BaseException as e:
            errors.append(e)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(2)]
    for thread in writers:
        thread.start()
    try:
        for _ in range(reads):
            if errors:
                break
            for value in reading.run(program.values):
                read += 1
                torn += not is_whole(value)
    finally:
        done.set()
        for thread in writers:
            thread.join()
    assert not errors, errors
    return read, torn


@pytest.mark.slow
@every_count
@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("writer", WRITERS)
def test_reads_in_this_process(writer: str, use_resource: bool, reads: int) -> None:
    program = Program(writer, use_resource)
    with tf.Session(graph=program.graph) as session:
        read, torn = read_beside_writes(program, session, session, reads)
    assert not torn, f"{torn} of {read} were torn"


# A ps and workers: values go through shared memory, or through sockets.
@pytest.fixture(scope="module", params=["shm", "tcp"])
def cluster(request: pytest.FixtureRequest) -> Iterator[InProcessCluster]:
    with in_process_cluster({"ps": 1, "worker": 2}, peer_timeout_s=60.0, transport=request.param) as running:
        yield running


def session_of(cluster: InProcessCluster, worker: int, graph: tf.Graph, by_client: bool = False) -> Any:
    """A session of a worker's master; `by_client`: of a client that starts steps in all tasks itself."""
    session = tf.Session(cluster.target("worker", worker), graph)
    if by_client:
        session._backend = GrpcBackend(cluster.cluster["worker"][worker], config_pb2.ConfigProto())
    return session


@every_count
@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
@pytest.mark.parametrize("writer", ["assign_add", "sgd", "adam", "sparse sgd"])
def test_reads_of_other_tasks(cluster: InProcessCluster, writer: str, use_resource: bool, reads: int) -> None:
    program = Program(writer, use_resource, PS, OTHER)
    with (
        session_of(cluster, 0, program.graph) as writing,
        session_of(cluster, 1, program.graph, by_client=True) as reading,
    ):
        read, torn = read_beside_writes(program, writing, reading, reads)
    assert not torn, f"{torn} of {read} were torn"


@every_count
@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
def test_rows_that_are_looked_up(use_resource: bool, reads: int) -> None:
    """A look-up of rows is one read, too."""
    program = Program("assign_add", use_resource)
    with program.graph.as_default():
        (v,) = tf.global_variables()
        rows = tf.constant(np.random.RandomState(1).randint(0, ROWS, 600))
        program.values = [tf.gather(v, rows), tf.nn.embedding_lookup(v, rows), tf.reduce_max(v) - tf.reduce_min(v)]
    with tf.Session(graph=program.graph) as session:
        read, torn = read_beside_writes(program, session, session, reads)
        assert not session.run(program.values[2])
    assert not torn, f"{torn} of {read} were torn"


@every_count
@pytest.mark.parametrize("writer", ["assign_add", "sgd", "sparse sgd"])
def test_checkpoints(writer: str, tmp_path: Path, reads: int) -> None:
    """What is saved beside updates is a value that there was."""
    program = Program(writer, True)
    with program.graph.as_default():
        (v,) = tf.global_variables()
        saver = tf.train.Saver({"v": v}, max_to_keep=None)
    saved: list[str] = []

    class Saving:
        """As a session whose values are those of checkpoints."""

        def run(self, values: Any) -> list[Any]:
            saved.append(saver.save(session, str(tmp_path / "model"), len(saved), write_meta_graph=False))
            return [tf.train.load_variable(saved[-1], "v")]

    with tf.Session(graph=program.graph) as session:
        read, torn = read_beside_writes(program, session, Saving(), reads // 2)
    assert not torn, f"{torn} of {read} were torn"


# One value a step ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [8, 1 << 18])
@pytest.mark.parametrize("warm", [False, True])
def test_what_was_read_before_an_update_is_not_changed_by_it(count: int, warm: bool) -> None:
    """A ReadVariableOp gives a value, which all that use it get, however late; what is read later is another."""
    with tf.Graph().as_default() as graph:
        v = tf.get_variable("v", [count], initializer=tf.zeros_initializer(), use_resource=True)
        before = v.read_value()
        with tf.control_dependencies([before]):
            change = v.assign_add(tf.ones([count]), read_value=False)
        with tf.control_dependencies([change]):
            late = before + 0.0
            same = tf.identity(before)
            after = v.read_value()
        with tf.control_dependencies([late, after]):
            again = v.assign_add(tf.ones([count]), read_value=False)
        with tf.control_dependencies([again]):
            both = tf.stack([before[0], after[0]])
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        for i in range(40 if warm else 3):
            got = session.run([before, late, same, after, both])
            want = [2 * i, 2 * i, 2 * i, 2 * i + 1]
            for value, right in zip(got, want):
                assert (value == right).all()
            assert got[4].tolist() == [2 * i, 2 * i + 1]
