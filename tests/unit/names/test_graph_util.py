"""Graphs cut down and frozen, tensors as protos, and names of TensorFlow's that need what is not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import dtfctl.runtime as tf


def _model(resource: bool) -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("w", initializer=np.eye(2, dtype=np.float32) * 3, use_resource=resource)
    table = tf.get_variable("table", initializer=np.arange(4, dtype=np.float32), use_resource=resource)
    picked = tf.gather(table, [1, 3])
    looped = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, tf.matmul(a, w)), [0, x])[1]
    branch = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.reduce_sum(w) + picked, lambda: picked)
    return x, tf.identity(looped + branch, name="out")


@pytest.mark.parametrize("resource", [False, True])
def test_a_frozen_graph_computes_what_the_session_did(resource: bool) -> None:
    fed = np.array([[1, 2], [3, 4]], np.float32)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x, out = _model(resource)
        session.run(tf.global_variables_initializer())
        session.run(tf.assign_add(graph.get_collection("variables")[0], tf.ones([2, 2])))
        want = [session.run(out, {x: fed}), session.run(out, {x: -fed})]
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["out"])
    assert not [n.name for n in frozen.node if n.op in ("VariableV2", "VarHandleOp", "Assign", "ReadVariableOp")]
    with tf.Graph().as_default(), tf.Session() as session:
        (again,) = tf.import_graph_def(frozen, return_elements=["out:0"], name="")
        got = [session.run(again, {"x:0": fed}), session.run(again, {"x:0": -fed})]
    np.testing.assert_array_equal(got, want)


def test_only_the_variables_asked_for_are_frozen() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        a, b = tf.get_variable("a", initializer=1.0), tf.get_variable("b", initializer=2.0)
        tf.add(a, b, name="sum")
        session.run(tf.global_variables_initializer())
        freeze = tf.graph_util.convert_variables_to_constants
        for kinds, options in (
            ({"a": "Const", "b": "VariableV2"}, {"variable_names_whitelist": ["a"]}),
            ({"a": "VariableV2", "b": "Const"}, {"variable_names_blacklist": ["a"]}),
        ):
            frozen = freeze(session, graph.as_graph_def(), ["sum"], **options)
            assert {n.name: n.op for n in frozen.node if n.name in kinds} == kinds


def test_a_graph_that_changes_its_variable_is_not_frozen() -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        a = tf.get_variable("a", initializer=1.0, use_resource=True)
        update = tf.assign_add(a, 1.0)
        session.run(tf.global_variables_initializer())
        name = getattr(update, "op", update).name
        with pytest.raises(ValueError, match="variable_names_blacklist"):
            tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), [name])


def test_a_part_of_a_graph_keeps_order_controls_and_colocations() -> None:
    with tf.Graph().as_default() as graph:
        a = tf.constant(1.0, name="a")
        with graph.colocate_with(a):
            b = tf.constant(2.0, name="b")
        tf.constant(3.0, name="unused")
        with tf.control_dependencies([tf.no_op(name="before")]):
            tf.negative(b, name="c")
        part = tf.graph_util.extract_sub_graph(graph.as_graph_def(), ["c"])
    assert [n.name for n in part.node] == ["a", "b", "before", "c"]
    with pytest.raises(AssertionError, match="nowhere is not in graph"):
        tf.graph_util.extract_sub_graph(part, ["nowhere"])
    with pytest.raises(TypeError):
        tf.graph_util.extract_sub_graph(part, "c")


def test_what_only_training_needs_is_removed() -> None:
    with tf.Graph().as_default() as graph:
        a = tf.constant(1.0, name="a")
        middle = tf.identity(tf.stop_gradient(a, name="stop"), name="id")
        kept = tf.identity(middle, name="kept")
        with tf.control_dependencies([kept]):
            tf.negative(middle, name="end")
        out = tf.graph_util.remove_training_nodes(graph.as_graph_def(), protected_nodes=["nothing"])
    assert {n.name: list(n.input) for n in out.node} == {"a": [], "kept": ["a"], "end": ["a", "^kept"]}


def test_questions_about_nodes() -> None:
    with tf.Graph().as_default() as graph:
        numbers = tf.constant([1, 2], name="numbers")
        floats = tf.constant([1.0], name="floats")
        v = tf.get_variable("v", initializer=1.0, use_resource=False)
        must = tf.graph_util.must_run_on_cpu
        assert must(numbers.op) and must(tf.cast(numbers, tf.float32).op.node_def)
        assert not must(floats.op) and not must(v.op)
        assert must(v.op, pin_variables_on_cpu=True)
        assert tf.graph_util.tensor_shape_from_node_def_name(graph, "numbers").as_list() == [2]
        assert tf.is_tensor(numbers) and tf.is_tensor(v) and tf.is_tensor(tf.SparseTensor([[0]], [1.0], [2]))
        assert not tf.is_tensor(3) and not tf.is_tensor(np.ones(2))


@pytest.mark.parametrize("as_text", [True, False])
def test_a_graph_is_written_and_read_back(tmp_path: Path, as_text: bool) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant([1.5, 2.5], name="a")
        path = tf.train.write_graph(graph, str(tmp_path / "new"), "g.pb", as_text)
        want = graph.as_graph_def()
    content = Path(path).read_bytes()
    read = text_format.Parse(content, tf.GraphDef()) if as_text else tf.GraphDef.FromString(content)
    assert read == want
    assert tf.io.write_graph is tf.train.write_graph


def test_arrays_become_protos_and_come_back() -> None:
    for value in (np.arange(6, dtype=np.int64).reshape(2, 3), np.array([1 + 2j]), np.array([b"a", b"bc"], object)):
        proto = tf.make_tensor_proto(value)
        back = tf.make_ndarray(proto)
        assert back.dtype == value.dtype and back.tolist() == value.tolist()
    assert list(tf.make_tensor_proto(2.5).float_val) == [2.5]
    assert tf.make_ndarray(tf.make_tensor_proto(7, shape=[2, 2])).tolist() == [[7, 7], [7, 7]]
    assert tf.make_ndarray(tf.make_tensor_proto([1, 2], tf.int64, shape=[3])).tolist() == [1, 2, 2]
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        tf.make_tensor_proto([1, 2], shape=[3], verify_shape=True)
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        tf.make_tensor_proto([1, 2], shape=[3], allow_broadcast=True)
    with pytest.raises(ValueError, match="Too many elements"):
        tf.make_tensor_proto([1, 2], shape=[1])


def test_a_compiled_op_library_is_refused_with_the_way_to_write_ops() -> None:
    with pytest.raises(NotImplementedError, match=r"custom-ops\.md"):
        tf.load_op_library("./zero_out.so")
