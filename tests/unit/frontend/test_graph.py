"""Building graphs: names, devices, control dependencies, collections, conversion, import and export."""

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.support import golden


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_names_are_made_unique_and_scopes_nest(graph) -> None:
    assert tf.constant(1, name="a").name == "a:0"
    assert tf.constant(1, name="a").name == "a_1:0"
    assert tf.constant(1, name="A").op.name != "a"
    with tf.name_scope("s") as scope:
        assert tf.constant(1, name="x").op.name == "s/x"
        with tf.name_scope("t"):
            assert tf.constant(1, name="x").op.name == "s/t/x"
    with tf.name_scope(scope):
        assert tf.constant(1, name="x").op.name == "s/x_1"
    with tf.name_scope("s"):
        assert tf.constant(1, name="x").op.name == "s_1/x"


def test_inner_device_wins_and_parts_merge() -> None:
    with tf.device("/job:ps/task:1"), tf.device("/cpu:0"):
        assert tf.constant(1).device == "/job:ps/task:1/device:CPU:0"
        with tf.device("/task:2"):
            assert tf.constant(1).device == "/job:ps/task:2/device:CPU:0"
        with tf.device(None):
            assert tf.constant(1).device == ""


def test_device_function_sees_the_op() -> None:
    with tf.device(lambda op: "/job:ps" if op.type == "VariableV2" else "/job:worker"):
        v = tf.Variable(1.0)
        assert v.device == "/job:ps"
        # The read is colocated with the variable, the constant is not.
        assert v.value().device == "/job:ps"
        assert tf.constant(1).device == "/job:worker"


def test_replica_device_setter_deals_variables_round_robin() -> None:
    setter = tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:3")
    with tf.device(setter):
        variables = [tf.Variable(0.0) for _ in range(3)]
        assert [v.device for v in variables] == [f"/job:ps/task:{i}" for i in (0, 1, 0)]
        assert tf.constant(1).device == "/job:worker/task:3"


def test_greedy_strategy_balances_bytes() -> None:
    strategy = tf.train.GreedyLoadBalancingStrategy(2, tf.train.byte_size_load_fn)
    with tf.device(tf.train.replica_device_setter(ps_tasks=2, ps_strategy=strategy)):
        sizes = [100, 10, 10, 10]
        devices = [tf.Variable(np.zeros(n, np.float32)).device for n in sizes]
    assert devices == ["/job:ps/task:0"] + ["/job:ps/task:1"] * 3


def test_control_dependencies_skip_what_data_implies() -> None:
    a, b = tf.constant(1), tf.constant(2)
    with tf.control_dependencies([a]):
        c = tf.add(a, b)
        d = tf.constant(3)
        e = tf.add(d, b)
        with tf.control_dependencies(None):
            f = tf.constant(4)
    assert c.op.control_inputs == []
    assert d.op.control_inputs == [a.op]
    # It waits for d already, which waits for a.
    assert e.op.control_inputs == []
    assert f.op.control_inputs == []


def test_colocation_groups_and_devices_follow() -> None:
    with tf.device("/job:ps/task:1"):
        a = tf.constant(1.0, name="a")
    with tf.device("/job:worker"), tf.colocate_with(a.op):
        b = tf.add(a, a)
    assert b.device == "/job:ps/task:1"
    assert b.op.get_attr("_class") == [b"loc:@a"]


def test_elements_by_name(graph) -> None:
    x = tf.constant(1, name="x")
    assert graph.get_tensor_by_name("x:0") is x
    assert graph.get_operation_by_name("x") is x.op
    with pytest.raises(KeyError, match="does not exist"):
        graph.get_tensor_by_name("y:0")
    with pytest.raises(KeyError, match="only has 1 outputs"):
        graph.get_tensor_by_name("x:1")
    with pytest.raises(ValueError, match="refers to an Operation"):
        graph.get_tensor_by_name("x")


def test_finalized_graph_refuses_ops(graph) -> None:
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        tf.constant(1)


def test_tensors_of_two_graphs_do_not_mix() -> None:
    x = tf.constant(1)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must be from the same graph"):
        tf.add(x, 1)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, tf.int32),
        (2**40, tf.int64),
        (1.5, tf.float32),
        (True, tf.bool),
        ("a", tf.string),
        ([1, 2.5], tf.float32),
        (np.float64(1), tf.float64),
        ([[b"x"], [b"y"]], tf.string),
        (1j, tf.complex128),
    ],
)
def test_constants_get_tensorflows_types(value, dtype) -> None:
    assert tf.constant(value).dtype is dtype


REPEATED = [
    *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool),
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128, tf.string),
]


@pytest.mark.parametrize("dtype", REPEATED, ids=lambda d: d.name)
def test_one_value_repeated(graph, dtype) -> None:
    value = {"string": b"word", "bool": True}.get(dtype.name, 2.5 + 1j if dtype.is_complex else 3)
    made = tf.constant(value, dtype, shape=[3, 2])
    assert made.shape.as_list() == [3, 2]
    with tf.Session() as session:
        assert session.run(made).tolist() == [[value] * 2] * 3


def test_one_value_repeated_takes_no_room_in_the_graph(graph) -> None:
    tf.constant(0.5, shape=[1 << 20, 1 << 10])
    assert graph.as_graph_def().ByteSize() < 200


def test_wrong_types_are_refused() -> None:
    with pytest.raises(TypeError):
        tf.constant(1.5, tf.int32)
    with pytest.raises(TypeError):
        tf.constant("a", tf.float32)
    with pytest.raises(ValueError, match="non-rectangular"):
        tf.constant([[1], [1, 2]])
    with pytest.raises(TypeError, match="does not match type"):
        tf.add(tf.constant(1), tf.constant(1.0))
    with pytest.raises(TypeError, match="not in list of allowed values"):
        tf.nn.relu(tf.constant("a"))


@pytest.mark.slow
def test_every_golden_graph_survives_import_and_export() -> None:
    for case in golden.cases():
        before = case.graph_def()
        with tf.Graph().as_default() as g:
            tf.import_graph_def(before, name="")
            after = g.as_graph_def()
        old, new = ({n.name: n for n in graph.node} for graph in (before, after))
        assert old.keys() == new.keys(), case.name
        for name, node in old.items():
            assert list(node.input) == list(new[name].input), name
            assert node.op == new[name].op and node.device == new[name].device
            for key, value in node.attr.items():
                assert new[name].attr[key] == value, f"{case.name} {name} {key}"


def test_import_maps_inputs_and_returns_elements() -> None:
    with tf.Graph().as_default() as inner:
        tf.add(tf.placeholder(tf.float32, name="x"), 1.0, name="y")
        graph_def = inner.as_graph_def()
    mine = tf.constant(41.0)
    y, op = tf.import_graph_def(graph_def, {"x:0": mine}, ["y:0", "y"], name="there")
    assert y.op is op and y.op.name == "there/y"
    assert tf.Session().run(y) == 42.0
    with pytest.raises(ValueError, match="not found in graph_def"):
        tf.import_graph_def(graph_def, {"nope:0": mine})
    with pytest.raises(ValueError, match="not found in graph_def"):
        tf.import_graph_def(graph_def, return_elements=["nope:0"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.fill([2**40], 1.0).op.inputs[0],
        lambda: tf.zeros([2**40]).op.inputs[0],
        lambda: tf.random_uniform([2**40]).op.inputs[0],
        lambda: tf.tile([1.0], [2**40]).op.inputs[1],
        lambda: tf.broadcast_to(1.0, [2**40]).op.inputs[1],
        lambda: tf.fill(np.array([2**40]), 1.0).op.inputs[0],
    ],
)
def test_sizes_that_do_not_fit_32_bits_stay_what_they_are(make) -> None:
    """They became 0 in silence, as int32 is what such inputs have by default."""
    with tf.Graph().as_default():
        sizes = make()
        assert sizes.dtype == tf.int64
        assert tf.get_static_value(sizes).tolist() == [2**40]


def test_nodes_are_imported_in_the_order_they_stand_in() -> None:
    """Those that stand before their inputs come as soon as these are there: TensorFlow's order."""
    with tf.Graph().as_default() as graph:
        a = tf.placeholder(tf.float32, [2], name="a")
        b = tf.add(a, tf.constant(1.0, name="one"), name="b")
        tf.multiply(b, tf.constant(2.0, name="two"), name="c")
        graph_def = graph.as_graph_def()
    names = ["a", "one", "b", "two", "c"]
    assert [n.name for n in graph_def.node] == names
    backward = tf.GraphDef(node=list(graph_def.node)[::-1])
    for given, wanted in ((graph_def, names), (backward, ["two", "one", "a", "b", "c"])):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(given, name="")
            assert [op.name for op in graph.get_operations()] == wanted


def test_shapes_are_shown_with_their_dimensions() -> None:
    assert repr(tf.TensorShape([2, None])) == "TensorShape([Dimension(2), Dimension(None)])"
    assert repr(tf.TensorShape(None)) == "TensorShape(None)" and str(tf.TensorShape([2, None])) == "(2, ?)"
