"""Gradients of nn, image and variable ops against finite differences of their own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.convert import IndexedSlices, constant
from dtfctl.runtime.framework.gradients import gradients
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops import nn_ops as nn
from dtfctl.runtime.ops.resource_variable import ResourceVariable
from dtfctl.runtime.ops.variables import Variable
from tests.support.interpreter import Interpreter

rng = np.random.RandomState(0)


def values(*shape: int) -> np.ndarray:
    return rng.uniform(0.2, 1.0, shape) * rng.choice([-1.0, 1.0], shape)


def distinct(*shape: int) -> np.ndarray:
    """Values far enough apart that a small step does not change which one is the largest."""
    return rng.permutation(int(np.prod(shape))).reshape(shape) / 10.0


def distribution(*shape: int) -> np.ndarray:
    """The gradient by the logits takes the labels for probabilities."""
    weights = np.abs(values(*shape))
    return weights / weights.sum(axis=-1, keepdims=True)


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "relu": (nn.relu, (values(3, 4),)),
    "elu": (nn.elu, (values(3, 4),)),
    "selu": (nn.selu, (values(3, 4),)),
    "leaky_relu": (nn.leaky_relu, (values(3, 4),)),
    "softplus": (nn.softplus, (values(3, 4),)),
    "softsign": (nn.softsign, (values(3, 4),)),
    "softmax": (nn.softmax, (values(3, 4),)),
    "log_softmax": (nn.log_softmax, (values(3, 4),)),
    "bias_add": (nn.bias_add, (values(2, 3, 4), values(4))),
    "bias_add_nchw": (lambda x, b: nn.bias_add(x, b, "NCHW"), (values(2, 4, 3), values(4))),
    "conv2d": (lambda x, w: nn.conv2d(x, w, [1, 2, 1, 1], "SAME"), (values(2, 5, 6, 3), values(3, 2, 3, 4))),
    "conv2d_dilated": (
        lambda x, w: nn.conv2d(x, w, [1, 1, 1, 1], "VALID", dilations=[1, 2, 2, 1]),
        (values(1, 6, 7, 2), values(2, 3, 2, 3)),
    ),
    "conv2d_groups": (lambda x, w: nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), (values(1, 4, 4, 4), values(2, 2, 2, 4))),
    "conv2d_explicit": (
        lambda x, w: nn.conv2d(x, w, [1, 2, 2, 1], [[0, 0], [2, 1], [0, 3], [0, 0]]),
        (values(1, 4, 5, 2), values(3, 3, 2, 2)),
    ),
    "conv3d": (
        lambda x, w: nn.conv3d(x, w, [1, 1, 2, 1, 1], "SAME"),
        (values(1, 3, 4, 4, 2), values(2, 2, 2, 2, 3)),
    ),
    "conv2d_transpose": (
        lambda x, w: nn.conv2d_transpose(x, w, [1, 6, 6, 2], [1, 2, 2, 1]),
        (values(1, 3, 3, 3), values(3, 3, 2, 3)),
    ),
    "depthwise": (
        lambda x, w: nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME"),
        (values(1, 5, 6, 3), values(3, 2, 3, 2)),
    ),
    "max_pool": (lambda x: nn.max_pool(x, 3, 2, "SAME"), (distinct(2, 5, 6, 2),)),
    "avg_pool": (lambda x: nn.avg_pool(x, 3, 2, "SAME"), (values(2, 5, 6, 2),)),
    "avg_pool3d": (lambda x: nn.avg_pool3d(x, 2, 2, "SAME"), (values(1, 3, 4, 3, 2),)),
    "top_k": (lambda x: nn.top_k(x, 2).values, (distinct(3, 5),)),
    "xent": (
        lambda x, p: nn.softmax_cross_entropy_with_logits_v2(p, x),
        (values(3, 4), distribution(3, 4)),
    ),
    "dilation2d": (
        lambda x, w: nn.dilation2d(x, w, [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
        (distinct(1, 4, 4, 2), values(2, 2, 2) / 100),
    ),
}


def _run(graph: Graph, fetches: list[str], feeds: dict[str, np.ndarray]) -> list[Any]:
    return Interpreter(graph.as_graph_def()).run(fetches, feeds)


@pytest.mark.parametrize("name", sorted(CASES))
def test_gradient_is_the_slope(name: str) -> None:
    function, inputs = CASES[name]
    with Graph().as_default() as graph:
        sources = [apply_op("Placeholder", dtype=x.dtype, shape=x.shape, name=f"x{i}") for i, x in enumerate(inputs)]
        y = function(*sources)
        assert y.shape.is_fully_defined()
        weights = values(*y.shape.known())
        slopes = gradients(y, sources, grad_ys=[constant(weights)])
    feeds = {f"x{i}:0": x for i, x in enumerate(inputs)}
    found = _run(graph, [s.name for s in slopes], feeds)
    step = 1e-5
    for i, x in enumerate(inputs):
        direction = values(*x.shape)
        ends = []
        for sign in (1, -1):
            moved = {**feeds, f"x{i}:0": x + sign * step * direction}
            ends.append(float((_run(graph, [y.name], moved)[0] * weights).sum()))
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose((found[i] * direction).sum(), slope, 1e-5, 1e-7)


def test_gradient_of_a_table_is_its_rows() -> None:
    with Graph().as_default():
        table = Variable(np.zeros((100, 3), np.float32), use_resource=True)
        assert isinstance(table, ResourceVariable)
        rows = table.sparse_read(constant([[7, 3], [7, 1]]))
        (grad,) = gradients(rows, [table])
    assert isinstance(grad, IndexedSlices)
    assert grad.values.shape.as_list() == [4, 3]
    assert grad.indices.shape.as_list() == [4]


def test_random_ops_stop_gradients() -> None:
    with Graph().as_default():
        shape = constant([2.0])
        noise = apply_op("RandomUniform", shape=apply_op("Cast", x=shape, DstT=np.int32), dtype=np.float32)
        assert gradients(noise, [shape]) == [None]
