"""Inputs of a rank an op does not take are refused when the node is made, as TensorFlow's shape functions do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.input_ranks import _by_op
from dtfctl.runtime.framework.op_signature import get_signature


def graph_of(op: str, inputs: list[tuple[Any, list[int | None] | None]], **attrs: Any) -> tf.GraphDef:
    """An op over placeholders of these types and shapes."""
    graph = tf.GraphDef()
    for i, (dtype, shape) in enumerate(inputs):
        node = graph.node.add(name=f"in{i}", op="Placeholder")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
    node = graph.node.add(name="op", op=op, input=[f"in{i}" for i in range(len(inputs))])
    for name, value in attrs.items():
        if isinstance(value, int):
            node.attr[name].i = value
        else:
            node.attr[name].type = value.as_datatype_enum
    return graph


def make(op: str, inputs: list[tuple[Any, list[int | None] | None]], **attrs: Any) -> Any:
    with tf.Graph().as_default():
        return tf.import_graph_def(graph_of(op, inputs, **attrs), return_elements=["op:0"], name="")[0]


FLOAT, INT = tf.float32, tf.int32
WRONG: dict[str, tuple[list[tuple[Any, list[int | None] | None]], dict[str, Any], str]] = {
    "ArgMax": ([(FLOAT, [2, 3]), (INT, [1])], {"T": FLOAT}, "must be rank 0 but is rank 1"),
    "GatherV2": (
        [(FLOAT, [2, 3]), (INT, []), (INT, [1])],
        {"Tparams": FLOAT, "Tindices": INT, "Taxis": INT},
        "rank 0 but is rank 1",
    ),
    "UnsortedSegmentSum": (
        [(FLOAT, [2]), (INT, [2]), (INT, [2])],
        {"T": FLOAT, "Tindices": INT},
        "must be rank 0 but is rank 1",
    ),
    "MatrixDiag": ([(FLOAT, [])], {"T": FLOAT}, "must be at least rank 1 but is rank 0"),
    "BatchToSpace": ([(FLOAT, [3, 3]), (INT, [2, 2])], {"T": FLOAT, "block_size": 2}, "must be rank 4 but is rank 2"),
    "ConcatV2": ([(FLOAT, [2]), (FLOAT, [2]), (INT, [1])], {"T": FLOAT, "N": 2}, "must be rank 0 but is rank 1"),
}


@pytest.mark.parametrize("op", WRONG)
def test_a_wrong_rank_is_refused(op: str) -> None:
    inputs, attrs, message = WRONG[op]
    with pytest.raises(ValueError, match=message):
        make(op, inputs, **attrs)


@pytest.mark.parametrize("op", WRONG)
def test_an_unknown_rank_passes(op: str) -> None:
    inputs, attrs, _ = WRONG[op]
    assert make(op, [(dtype, None) for dtype, _ in inputs], **attrs).op.type == op


def test_rules_name_inputs_of_ops_that_exist() -> None:
    rules = _by_op()
    assert len(rules) > 400
    for op, ranks in rules.items():
        assert ranks.keys() <= {arg.name for arg in get_signature(op).inputs}, op
        assert all(low <= (low if high is None else high) for low, high in ranks.values()), op


def test_constants_a_shape_function_cannot_compute_with() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="TopKV2"):
        tf.raw_ops.TopKV2(input=np.ones(3, np.float32), k=np.array([1, 2], np.int32))


def test_values_of_a_variable_have_its_shape() -> None:
    with tf.Graph().as_default():
        handle = tf.raw_ops.VarHandleOp(dtype=FLOAT, shape=[2, 3])
        for op in (tf.raw_ops.AssignVariableOp, tf.raw_ops.AssignAddVariableOp, tf.raw_ops.AssignSubVariableOp):
            op(resource=handle, value=np.ones((2, 3), np.float32))
            with pytest.raises(ValueError):
                op(resource=handle, value=np.ones((3,), np.float32))


def test_bias_of_channels_first() -> None:
    with tf.Graph().as_default():
        rows, bias = np.ones((2, 3), np.float32), np.ones(3, np.float32)
        with pytest.raises(ValueError, match="rank at least 3"):
            tf.raw_ops.BiasAdd(value=rows, bias=bias, data_format="NCHW")
        assert tf.raw_ops.BiasAddV1(value=rows, bias=bias).shape.as_list() == [2, 3]
