"""Whatever a stranger sends, the answer is an OpError or a graph: no other exception, no hang, no flood of memory."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings, strategies as st

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.compile import CompileOptions, compile_step, prepare
from dtfctl.runtime.compiler.partition import split_by_device
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError, OpError, ResourceExhaustedError
from dtfctl.runtime.framework.node_graph import NodeGraph
from tests.support.examples import examples
from tests.support.golden import Case, cases
from tests.unit.compiler.harness import TWO_TASKS, device_set
from tests.unit.executor.harness import GraphText

CASES = cases()
FUZZ = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def compile_everything(graph_def: graph_pb2.GraphDef, options: CompileOptions | None = None) -> None:
    """Extend, place, and compile a step that runs every node."""
    graph = NodeGraph()
    graph.extend(graph_def)
    devices = device_set(*TWO_TASKS)
    prepared = prepare(graph, devices, options)
    if graph.nodes:
        step = compile_step(prepared, [], [], list(graph.nodes), devices)
        for part in step.partitions.values():
            split_by_device(NodeGraph.from_graph_def(part.to_graph_def()), devices.incarnations())


def survives(graph_def: graph_pb2.GraphDef) -> None:
    for expand in (False, True):
        try:
            compile_everything(graph_def, CompileOptions(expand_all_calls=expand))
        except OpError as e:
            assert e.message


@FUZZ
@given(st.binary(max_size=400))
def test_random_bytes(data: bytes) -> None:
    try:
        graph_def = graph_pb2.GraphDef.FromString(data)
    except DecodeError:
        return
    survives(graph_def)


@FUZZ
@given(st.integers(0, len(CASES) - 1), st.integers(0, 2**32), st.integers(1, 6))
def test_bytes_of_golden_graphs_changed(which: int, seed: int, changes: int) -> None:
    data = bytearray(CASES[which].graph_def().SerializeToString())
    rng = random.Random(seed)
    for _ in range(changes):
        data[rng.randrange(len(data))] = rng.randrange(256)
    try:
        graph_def = graph_pb2.GraphDef.FromString(bytes(data))
    except DecodeError:
        return
    survives(graph_def)


def _drop_node(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    del g.node[rng.randrange(len(g.node))]


def _double_node(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    g.node.add().CopyFrom(rng.choice(g.node))


def _rewire(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    node = rng.choice(g.node)
    other = rng.choice(g.node).name
    text = rng.choice(
        [other, f"{other}:{rng.randrange(4)}", f"^{other}", f"{other}:99999999999", "", "^", ":0", "nobody"]
    )
    if node.input:
        node.input[rng.randrange(len(node.input))] = text
    else:
        node.input.append(text)


def _swap_ops(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    rng.choice(g.node).op = rng.choice(
        [rng.choice(g.node).op, "NoSuchOp", "", "Merge", "Exit", "NextIteration", "Enter"]
    )


def _swap_attrs(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    one, other = rng.choice(g.node), rng.choice(g.node)
    if one.attr and other.attr:
        one.attr[rng.choice(sorted(one.attr))].CopyFrom(other.attr[rng.choice(sorted(other.attr))])


def _drop_attr(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    node = rng.choice(g.node)
    if node.attr:
        del node.attr[rng.choice(sorted(node.attr))]


def _odd_attr(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    node = rng.choice(g.node)
    if not node.attr:
        return
    value = node.attr[rng.choice(sorted(node.attr))]
    kind = rng.randrange(7)
    if kind == 0:
        value.type = rng.choice([0, 101, 33, 120, 7, 20, 21])
    elif kind == 1:
        value.i = rng.choice([-1, 2**40, -(2**63), 2**63 - 1])
    elif kind == 2:
        value.s = b"\xff\xfe/job:x"
    elif kind == 3:
        value.shape.dim.add(size=rng.choice([-5, 2**62]))
        value.shape.dim.add(size=2**62)
    elif kind == 4:
        value.tensor.dtype = rng.choice([0, 1, 7, 20, 21, 33, 101])
        value.tensor.tensor_shape.dim.add(size=rng.choice([2**35, -1, 7]))
        value.tensor.float_val.extend([1.0, 2.0])
        value.tensor.string_val.extend([b"a", b"b"])
    elif kind == 5:
        value.list.i.extend([1, 2])
        value.list.s.append(b"x")
    else:
        value.func.name = "nobody"


def _odd_device(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    devices = ["/job:ps", "/job:ps/task:0", "/job:worker/task:9", "???", "/device:GPU:0", "/cpu:0", "/job:/task:x"]
    rng.choice(g.node).device = rng.choice(devices)


def _odd_class(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    value = rng.choice(g.node).attr["_class"]
    value.list.s.append(rng.choice([b"loc:@nobody", b"loc:@" + rng.choice(g.node).name.encode(), b"\xff", b"loc:@"]))


def _break_function(g: graph_pb2.GraphDef, rng: random.Random) -> None:
    if not g.library.function:
        return
    function = rng.choice(g.library.function)
    kind = rng.randrange(5)
    if kind == 0 and function.node_def:
        del function.node_def[rng.randrange(len(function.node_def))]
    elif kind == 1 and function.ret:
        function.ret[rng.choice(sorted(function.ret))] = "nobody:out:3"
    elif kind == 2 and function.node_def:
        rng.choice(function.node_def).device = "/job:ps"
    elif kind == 3 and function.node_def:
        node = rng.choice(function.node_def)
        if node.input:
            node.input[0] = f"{rng.choice(function.node_def).name}:output:0"
    elif function.signature.input_arg:
        function.signature.input_arg[0].type = 99


MUTATIONS: list[Callable[[graph_pb2.GraphDef, random.Random], None]] = [
    _drop_node,
    _double_node,
    _rewire,
    _swap_ops,
    _swap_attrs,
    _drop_attr,
    _odd_attr,
    _odd_device,
    _odd_class,
    _break_function,
]


WITH_FUNCTIONS = [c for c in CASES if c.graph_def().library.function]


@pytest.mark.slow
@FUZZ
@given(st.sampled_from(WITH_FUNCTIONS), st.integers(0, 2**32), st.integers(1, 4))
def test_functions_with_something_wrong(case: Case, seed: int, changes: int) -> None:
    graph_def = case.graph_def()
    rng = random.Random(seed)
    for _ in range(changes):
        mutation = rng.choice([_break_function, _swap_attrs, _odd_device, _odd_attr])
        mutation(graph_def, rng)
    survives(graph_def)


@pytest.mark.slow
@settings(FUZZ, max_examples=examples(400))
@given(st.integers(0, len(CASES) - 1), st.integers(0, 2**32), st.integers(1, 4))
def test_golden_graphs_with_something_wrong(which: int, seed: int, changes: int) -> None:
    graph_def = CASES[which].graph_def()
    rng = random.Random(seed)
    for _ in range(changes):
        if graph_def.node:
            rng.choice(MUTATIONS)(graph_def, rng)
    survives(graph_def)


def chain(length: int) -> GraphText:
    g = GraphText()
    last = g.const("c", 1.0, "float32")
    for i in range(length):
        last = g.add(f"n{i}", "Neg", last, T="float32")
    return g


@pytest.mark.slow
@pytest.mark.parametrize("length", [10_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_a_chain_longer_than_python_can_recurse(length: int) -> None:
    graph = NodeGraph.from_graph_def(chain(length).proto)
    devices = device_set(*TWO_TASKS)
    step = compile_step(prepare(graph, devices), [], [f"n{length - 1}:0"], [], devices)
    assert [n.op for n in step.partitions[devices.master_task]] == ["Const", "_Send"]


@pytest.mark.parametrize(
    ("error", "text", "build"),
    [
        (InvalidArgumentError, "Node 'a' is not unique", lambda g: [g.const("a", 1.0), g.const("a", 2.0)]),
        (InvalidArgumentError, "Unknown input node 'b'", lambda g: g.add("a", "Neg", "b", T="float32")),
        (NotFoundError, "Op type not registered 'Frobnicate'", lambda g: g.proto.node.add(name="a", op="Frobnicate")),
        (InvalidArgumentError, "Node name contains invalid characters", lambda g: g.const("a b", 1.0)),
        (
            InvalidArgumentError,
            "NodeDef missing attr 'T' from Op<name=Neg",
            lambda g: [g.const("a", 1.0), g.add("b", "Neg", "a")],
        ),
        (
            InvalidArgumentError,
            "Connecting to invalid output 1 of source node a which has 1 outputs",
            lambda g: [g.const("a", 1.0, "float32"), g.add("b", "Neg", "a:1", T="float32")],
        ),
        (
            InvalidArgumentError,
            "Control dependencies must come after regular dependencies",
            lambda g: [g.const("a", 1.0, "float32"), g.add("b", "Neg", "^a", "a", T="float32")],
        ),
        (
            InvalidArgumentError,
            "was passed double from a:0 incompatible with expected float",
            lambda g: [g.const("a", 1.0, "float64"), g.add("b", "Neg", "a", T="float32")],
        ),
        (
            InvalidArgumentError,
            "2 nodes in a cycle",
            lambda g: [g.add("a", "Neg", "b", T="float32"), g.add("b", "Neg", "a", T="float32")],
        ),
        (
            InvalidArgumentError,
            "Value for attr 'T' of string is not in the list of allowed values",
            lambda g: [g.const("a", np.array(b"x", object)), g.add("b", "Neg", "a", T="string")],
        ),
    ],
)
def test_tensorflows_code_and_text(error: type[OpError], text: str, build: Callable[[GraphText], object]) -> None:
    g = GraphText()
    build(g)
    graph = NodeGraph()
    with pytest.raises(error, match="(?s).*".join(map(re.escape, text.split("…")))):
        graph.extend(g.proto)
    assert not graph.nodes


def test_a_failed_extension_leaves_the_library_alone() -> None:
    graph_def = graph_pb2.GraphDef()
    graph_def.library.function.add().signature.name = "f"
    graph_def.node.add(name="a", op="NoSuchOp")
    graph = NodeGraph()
    with pytest.raises(NotFoundError):
        graph.extend(graph_def)
    assert not graph.library.functions


def grown(*, times: int, source: str = "x") -> GraphText:
    """A branch of one output that takes `source`, as it is once it has grown some times."""
    g = GraphText()
    f = graph_pb2.NameAttrList(name="f")
    body = {"then_branch": f, "else_branch": f}
    for turn in range(max(times, 1)):
        count = 1 + (turn + 1 if times else 0)
        g.add("branch", "StatelessIf", "c", source, Tcond="bool", Tin=["float"], Tout=["float"] * count, **body)
    return g


@pytest.mark.parametrize("times", [1, 2], ids=["a cycle", "more than once"])
def test_branches_that_grow_wrongly_stay_what_they_were(times: int) -> None:
    graph = NodeGraph()
    first = grown(times=0)
    first.const("c", True)
    first.const("x", 1.0, np.float32)
    graph.extend(first.proto)
    before = graph.to_graph_def()
    again = grown(times=times, source="x" if times > 1 else "late")
    again.add("late", "Neg", "branch:1", T="float")
    with pytest.raises(InvalidArgumentError, match="cycle" if times == 1 else "not unique"):
        graph.extend(again.proto)
    assert graph.to_graph_def() == before
    graph.extend(grown(times=1).proto)
    assert len(graph.nodes["branch"].output_types) == 2


@pytest.mark.parametrize("dtype", [1, 7], ids=["float", "string"])
def test_a_constant_that_claims_gigabytes(dtype: int) -> None:
    graph_def = graph_pb2.GraphDef()
    node = graph_def.node.add(name="big", op="Const")
    node.attr["dtype"].type = dtype
    tensor = node.attr["value"].tensor
    tensor.dtype = dtype
    tensor.tensor_shape.dim.add(size=2**38)
    tensor.float_val.extend([1.0, 2.0])
    tensor.string_val.extend([b"a", b"b"])
    with pytest.raises(ResourceExhaustedError, match="OOM when allocating tensor"):
        compile_everything(graph_def)


def test_a_fill_of_gigabytes_is_not_folded() -> None:
    g = GraphText()
    g.const("dims", [2**20, 2**20], "int32")
    g.const("value", 1.0, "float32")
    g.add("fill", "Fill", "dims", "value", T="float32", index_type="int32")
    compile_everything(g.proto)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("StatelessRandomUniform", ["dims", "seed"], {"T": "int32", "Tseed": "int32", "dtype": "float32"}),
        ("Tile", ["matrix", "dims"], {"T": "float32", "Tmultiples": "int32"}),
        ("BroadcastTo", ["matrix", "dims"], {"T": "float32", "Tidx": "int32"}),
    ],
)
def test_what_makes_gigabytes_of_little_is_not_folded(op: str, inputs: list[str], attrs: dict[str, str]) -> None:
    g = GraphText()
    g.const("dims", [2**20, 2**20], "int32")
    g.const("seed", [1, 2], "int32")
    g.const("matrix", [[1.0]], "float32")
    g.add("made", op, *inputs, **attrs)
    compile_everything(g.proto)


def test_more_outputs_than_anybody_has() -> None:
    g = GraphText()
    g.const("axis", 0, "int32")
    g.const("x", [1.0], "float32")
    g.add("split", "Split", "axis", "x", T="float32", num_split=2**40)
    with pytest.raises(InvalidArgumentError, match="num_split"):
        compile_everything(g.proto)


def test_a_later_consumer_only() -> None:
    graph_def = graph_pb2.GraphDef()
    graph_def.versions.min_consumer = 99_999
    with pytest.raises(InvalidArgumentError, match="GraphDef min consumer version 99999 above current version"):
        compile_everything(graph_def)
