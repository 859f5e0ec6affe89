"""TF1's Session over a graph of ours: structures of fetches, feeds, growth, contexts."""

from __future__ import annotations

import collections
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from dtfctl.protocol import config_pb2
from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.client.fetches import SparseTensorValue, register_session_run_conversion_functions
from dtfctl.runtime.client.interactive import InteractiveSession
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant
from dtfctl.runtime.framework.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from tests.support.clusters import in_process_cluster


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = Graph()
    with made.as_default():
        yield made


def placeholder(name: str, shape: Any = None, dtype: Any = dtypes.float32) -> Any:
    return apply_op("Placeholder", dtype=dtype, shape=shape, name=name)


class Pair(NamedTuple):
    first: Any
    second: Any


def test_any_structure_of_fetches(graph: Graph) -> None:
    a, b = constant(1.0, name="a"), constant([2.0, 3.0], name="b")
    nothing = make_op("NoOp", name="nothing")
    with Session() as session:
        assert session.run(a) == 1.0
        assert session.run("a:0") == 1.0
        assert session.run(nothing) is None
        assert session.run([]) == []
        got = session.run({"x": [a, (b, nothing)], "p": Pair(a, "b:0")})
        assert got["x"][0] == 1.0
        assert got["x"][1][0].tolist() == [2.0, 3.0]
        assert got["x"][1][1] is None
        assert isinstance(got["p"], Pair)
        assert got["p"].second.tolist() == [2.0, 3.0]
        ordered = session.run(collections.OrderedDict([("z", a), ("y", a)]))
        assert list(ordered) == ["z", "y"]
        assert isinstance(session.run(collections.defaultdict(list, {"k": a})), collections.defaultdict)


def test_fetches_of_composite_tensors(graph: Graph) -> None:
    sparse = SparseTensor([[0, 1]], [5.0], [2, 3])
    slices = IndexedSlices(constant([[1.0]]), constant([4]))
    with Session() as session:
        got = session.run([sparse, slices])
        assert isinstance(got[0], SparseTensorValue)
        assert got[0].values.tolist() == [5.0]
        assert got[1].indices.tolist() == [4]
        assert got[1].dense_shape is None
        fed = session.run(sparse, {sparse: SparseTensorValue([[1, 1]], [7.0], [2, 3])})
        assert fed.indices.tolist() == [[1, 1]]


def test_types_a_user_registers(graph: Graph) -> None:
    class Squared:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

    register_session_run_conversion_functions(
        Squared, lambda s: ([s.tensor], lambda values: values[0] ** 2), lambda s, value: [(s.tensor, value)]
    )
    with pytest.raises(ValueError, match="already been registered"):
        register_session_run_conversion_functions(Squared, lambda s: ([], lambda v: v))
    boxed = Squared(placeholder("x"))
    with Session() as session:
        assert session.run(boxed, {boxed: 3.0}) == 9.0


@pytest.mark.parametrize(
    ("fetch", "kind", "text"),
    [
        (None, TypeError, "Cannot be None"),
        (3, TypeError, "has invalid type"),
        ("nope:0", ValueError, "cannot be interpreted as a Tensor"),
        ([None], TypeError, "Cannot be None"),
    ],
)
def test_wrong_fetches(graph: Graph, fetch: Any, kind: type[Exception], text: str) -> None:
    constant(1.0)
    with Session() as session, pytest.raises(kind, match=text):
        session.run(fetch)


def test_wrong_feeds(graph: Graph) -> None:
    x, i = placeholder("x", [2]), placeholder("i", [], dtypes.int32)
    y = apply_op("Identity", input=x, name="y")
    with Session() as session:
        with pytest.raises(
            ValueError, match=r"Cannot feed value of shape \(3,\) for Tensor x:0, which has shape \(2,\)"
        ):
            session.run(y, {x: [1, 2, 3]})
        with pytest.raises(TypeError, match=r"The value of a feed cannot be a tf.Tensor object"):
            session.run(y, {x: y})
        with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
            session.run(y, {"nope:0": 1})
        with pytest.raises(TypeError, match="is not compatible with Tensor type"):
            session.run(i, {i: 1 << 40})
        graph.prevent_feeding(x)
        with pytest.raises(ValueError, match="may not be fed"):
            session.run(y, {x: [1, 2]})


def test_a_tensor_fed_and_fetched_is_what_was_fed(graph: Graph) -> None:
    x = placeholder("x")
    y = apply_op("Identity", input=x)
    with Session() as session:
        assert session.run([x, y, x], {x: 4}) == [4.0, 4.0, 4.0]
        assert session.run(x, {x: 5}) == 5.0


def test_the_caller_and_the_runtime_do_not_share_arrays(graph: Graph) -> None:
    v = apply_op("VariableV2", shape=[2], dtype=dtypes.float32, name="v")
    x = placeholder("x", [2])
    assign = apply_op("Assign", ref=v, value=x)
    with Session() as session:
        mine = np.ones(2, np.float32)
        session.run(assign.op, {x: mine})
        mine[:] = 7
        got = session.run(v)
        assert got.tolist() == [1, 1]
        got[:] = 9
        assert session.run(v).tolist() == [1, 1]


def test_strings(graph: Graph) -> None:
    s = placeholder("s", None, dtypes.string)
    y = apply_op("Identity", input=s)
    with Session() as session:
        assert session.run(y, {s: "héllo"}) == "héllo".encode()
        assert session.run(y, {s: [b"a\x00", "b"]}).tolist() == [b"a\x00", b"b"]
        assert session.run(y, {s: np.array(["ab", "c"])}).tolist() == [b"ab", b"c"]


def test_the_graph_may_grow_between_runs(graph: Graph) -> None:
    a = constant(2.0)
    with Session() as session:
        assert session.run(a) == 2.0
        b = apply_op("Mul", x=a, y=a)
        assert session.run(b) == 4.0
        run = session.make_callable(apply_op("Mul", x=b, y=b))
        assert run() == 16.0


def test_callables(graph: Graph) -> None:
    x = placeholder("x")
    y = apply_op("Mul", x=x, y=x, name="y")
    with Session() as session:
        assert session.make_callable(y, [x])(3.0) == 9.0
        assert session.make_callable({"c": constant(1.0)})() == {"c": 1.0}
        assert session.make_callable(make_op("NoOp"))() is None
        metadata = config_pb2.RunMetadata()
        options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
        assert session.make_callable(constant(4.0), accept_options=True)(options, metadata) == 4.0
        assert metadata.step_stats.dev_stats
        low = session._make_callable_from_options(config_pb2.CallableOptions(feed=["x:0"], fetch=["y:0"]))
        assert low(np.float32(5)) == [25.0]
        with pytest.raises(TypeError, match="must be a list or tuple"):
            session.make_callable(y, x)


def test_a_callable_goes_on_as_the_graph_grows_and_ends_with_its_session(graph: Graph) -> None:
    v = apply_op("VariableV2", dtype=dtypes.float32, shape=[2], name="v")
    init = apply_op("Assign", ref=v, value=constant([1.0, 2.0]))
    add = apply_op("AssignAdd", ref=v, value=constant([1.0, 1.0]))
    with Session() as session:
        read, grow = session.make_callable([v, {"again": v}]), session.make_callable(add.op)
        with pytest.raises(FailedPreconditionError, match="uninitialized"):
            read()
        session.run(init)
        seen = []
        for n in range(6):
            seen.append(read())
            assert grow() is None
            if n == 3:
                assert session.run(apply_op("Neg", x=constant(1.0))) == -1.0
        for n, (first, rest) in enumerate(seen):
            np.testing.assert_array_equal(first, [1.0 + n, 2.0 + n])
            np.testing.assert_array_equal(rest["again"], first)
    with pytest.raises(RuntimeError, match="closed"):
        read()


def test_partial_runs(graph: Graph) -> None:
    a, b, c = placeholder("a", []), placeholder("b", []), placeholder("c", [])
    r1 = apply_op("AddV2", x=a, y=b)
    r2 = apply_op("Mul", x=r1, y=c)
    with Session() as session:
        handle = session.partial_run_setup([r1, r2], [a, b, c])
        other = session.partial_run_setup([r1], [a, b])
        assert session.partial_run(handle, r1, {a: 1, b: 2}) == 3.0
        assert session.partial_run(other, r1, {a: 5, b: 2}) == 7.0
        assert session.partial_run(handle, r2, {c: 17}) == 51.0


def test_errors_know_their_operation(graph: Graph) -> None:
    x = placeholder("x", [])
    y = apply_op("Identity", input=x)
    with Session() as session, pytest.raises(InvalidArgumentError) as caught:
        session.run(y)
    assert caught.value.op is x.op
    assert caught.value.node_def.name == "x"
    assert "test_session.py" in "".join(caught.value.__notes__)


def test_sessions_of_their_own_do_not_share_state(graph: Graph) -> None:
    v = apply_op("VariableV2", shape=[], dtype=dtypes.float32, name="v")
    assign = apply_op("Assign", ref=v, value=constant(1.0))
    with Session() as one, Session(graph=graph) as two:
        one.run(assign.op)
        assert one.run(v) == 1.0
        with pytest.raises(FailedPreconditionError, match="Attempting to use uninitialized value v"):
            two.run(v)


def test_sessions_of_a_server_share_state_unless_isolated_and_reset_clears_it(graph: Graph) -> None:
    v = apply_op("VariableV2", shape=[], dtype=dtypes.float32, name="v")
    assign = apply_op("Assign", ref=v, value=constant(1.0))
    with in_process_cluster({"worker": 1}) as cluster:
        target = cluster.target("worker", 0)
        with Session(target) as one:
            one.run(assign.op)
        with Session(target) as two:
            assert two.run(v) == 1.0
        alone = Session(target, config=config_pb2.ConfigProto(isolate_session_state=True))
        with pytest.raises(FailedPreconditionError):
            alone.run(v)
        open_one = Session(target)
        assert open_one.run(v) == 1.0
        Session.reset(target)
        with Session(target) as three, pytest.raises(FailedPreconditionError):
            three.run(v)
        with pytest.raises(Exception, match=r"closed|not found"):
            open_one.run(v)


def test_default_sessions(graph: Graph) -> None:
    a = constant(3.0)
    assert get_default_session() is None
    with pytest.raises(ValueError, match="No default session"):
        a.eval()
    with Session() as session:
        assert get_default_session() is session
        assert a.eval() == 3.0
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(get_default_session()))
        thread.start()
        thread.join()
        assert seen == [None], "each thread has its own"
        with pytest.raises(RuntimeError, match="not re-entrant"):
            session.__enter__()
    assert get_default_session() is None
    interactive = InteractiveSession()
    assert a.eval() == 3.0
    interactive.close()
    assert get_default_session() is None


def test_closed_and_empty_sessions(graph: Graph) -> None:
    session = Session()
    with pytest.raises(RuntimeError, match="The Session graph is empty"):
        session.run([])
    a = constant(1.0)
    session.run(a)
    session.close()
    session.close()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
        session.run(a)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("grpc://nohost", InvalidArgumentError),
        ("grpc://host:port", InvalidArgumentError),
        ("grpc://a/b:1", InvalidArgumentError),
        ("http://localhost:1", NotFoundError),
        ("unix:", InvalidArgumentError),
        (config_pb2.ConfigProto(), TypeError),
        (3, TypeError),
    ],
)
def test_wrong_targets(graph: Graph, target: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        Session(target)


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=r"`graph` must be a tf.Graph"):
        Session(graph="g")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"`config` must be a tf.ConfigProto"):
        Session(config={"x": 1})  # type: ignore[arg-type]


def test_devices(graph: Graph) -> None:
    with Session(config=config_pb2.ConfigProto(device_count={"CPU": 2})) as session:
        names = [d.name for d in session.list_devices()]
    assert names == [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(2)]


def test_many_threads_on_one_session(graph: Graph) -> None:
    x = placeholder("x", [])
    y = apply_op("Mul", x=x, y=x)
    wrong: list[Any] = []
    with Session() as session:

        def work(i: int) -> None:
            for _ in range(50):
                got = session.run(y, {x: i})
                if got != i * i:
                    wrong.append((i, got))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("target", ["", "tf.train.Server.create_local_server().target"])
def test_a_script_that_leaves_its_session_open_ends(target: str) -> None:
    script = f"""
import dtfctl.runtime as tf
session = tf.Session({target})
print(session.run(tf.constant(1.0) + 2.0))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3.0\n", "")
