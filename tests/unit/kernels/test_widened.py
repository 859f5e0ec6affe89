"""Steps of 16-bit types that are computed in float32 by the forms for known shapes give what the usual kernels give."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.executor import shaped, tuner
from dtfctl.runtime.kernels.compiled import loops
from dtfctl.runtime.kernels.into import parallel
from dtfctl.runtime.kernels.into.registry import WIDENED, load_makers

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
TYPES = {"bfloat16": BFLOAT16, "float16": np.dtype(np.float16)}
# Of the shape (8, 16, 16, 8), and what has a row for each of eight channels.
PROGRAMS = {
    "Add": lambda x, y: tf.raw_ops.Add(x=x, y=y),
    "AddV2": lambda x, y: tf.raw_ops.AddV2(x=x, y=y[0]),
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Maximum": tf.maximum,
    "Minimum": tf.minimum,
    "RealDiv": lambda x, y: x / (y * y + 1),
    "Div": lambda x, y: tf.raw_ops.Div(x=x, y=y * y + 1),
    "AddN": lambda x, y: tf.add_n([x, y, x]),
    "AccumulateNV2": lambda x, y: tf.raw_ops.AccumulateNV2(inputs=[x, y, x], shape=x.shape),
    "Square": lambda x, y: tf.square(x),
    "Neg": lambda x, y: -x,
    "Exp": lambda x, y: tf.exp(x),
    "Log": lambda x, y: tf.log(x * x + 1),
    "Log1p": lambda x, y: tf.log1p(x * x),
    "Expm1": lambda x, y: tf.expm1(x),
    "Sqrt": lambda x, y: tf.sqrt(x * x),
    "Tanh": lambda x, y: tf.tanh(x),
    "Sin": lambda x, y: tf.sin(x),
    "Cos": lambda x, y: tf.cos(x),
    "BiasAdd": lambda x, y: tf.nn.bias_add(x, y[0, 0, 0]),
    "Relu": lambda x, y: tf.nn.relu(x),
    "ReluGrad": lambda x, y: tf.raw_ops.ReluGrad(gradients=x, features=y),
    "TanhGrad": lambda x, y: tf.raw_ops.TanhGrad(y=x, dy=y),
    "SigmoidGrad": lambda x, y: tf.raw_ops.SigmoidGrad(y=x, dy=y),
    "MaxPool": lambda x, y: tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
    "MaxPoolGrad": lambda x, y: tf.gradients(tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"), x)[0],
    "BiasAddGrad": lambda x, y: tf.raw_ops.BiasAddGrad(out_backprop=x),
    "Sum": lambda x, y: tf.reduce_sum(x, 0),
    "Softmax": lambda x, y: tf.nn.softmax(tf.reshape(x, [-1, 8])),
}


def test_every_op_that_is_widened_has_a_program() -> None:
    load_makers()
    assert set(PROGRAMS) == WIDENED


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", PROGRAMS)
def test_planned_steps_give_what_the_first_step_gave(op: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "_WARM_UP", 0)
    monkeypatch.setattr(tuner, "worth_running_beside", lambda spent: frozenset())
    monkeypatch.setattr(shaped, "_LEAST_BYTES", 0)
    monkeypatch.setattr(parallel, "LEAST_BYTES", 0)
    rng, dtype = np.random.default_rng(3), TYPES[kind]
    x, y = (rng.standard_normal((16, 16, 16, 8)).astype(dtype) for _ in range(2))
    with tf.Graph().as_default():
        a, b = tf.placeholder(kind, x.shape), tf.placeholder(kind, y.shape)
        made = PROGRAMS[op](a + 0, b + 0)
        assert op in {node.op for node in tf.get_default_graph().as_graph_def().node}
        with tf.Session() as session:
            found = [session.run(made, {a: x, b: y}) for _ in range(6)]
    last = 2.0 ** (-7 if dtype == BFLOAT16 else -10)
    for one in found:
        assert one.dtype == dtype
        # The usual kernel may sum up in another order, which can round to the neighbour.
        np.testing.assert_allclose(one.astype("f"), found[0].astype("f"), rtol=last, atol=last)


def test_loops_round_and_widen_as_ml_dtypes() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(2000) * 10.0 ** rng.integers(-44, 38, 2000)).astype(np.float32)
    x[:9] = np.nan, -np.nan, np.inf, -np.inf, 3.4e38, -0.0, 1.00390625, 1.01171875, 1e-45
    want, got = x.astype(BFLOAT16), np.empty(x.size, np.uint16)
    bits: Any = x.view(np.uint32).astype(np.int64)  # which as Python's numbers do not overflow
    loops.rounded_to_bfloat16(bits, got)
    is_number = ~np.isnan(x)
    np.testing.assert_array_equal(got[is_number], want.view(np.uint16)[is_number])
    assert np.isnan(got.view(BFLOAT16)[~is_number].astype("f")).all()
    wide = np.empty(x.size, np.uint32)
    loops.widened_bfloat16(got, wide)
    np.testing.assert_array_equal(wide.view("f")[is_number], want.astype("f")[is_number])
