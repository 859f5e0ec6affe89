"""Functions that programs and TensorFlow's own modules use give what stock TensorFlow 2.21 gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.names import stock_snippets

STOCK: dict[str, Any] = json.loads(stock_snippets.VALUES.read_text())
# `tensorflow.python` can only mean this front end in a process that has not imported the real one.
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from dtfctl.runtime.programs.as_tensorflow import install
install()
import tensorflow.compat.v1 as tf
import stock_snippets
found = {}
for name in stock_snippets.SNIPPETS:
    try:
        found[name] = stock_snippets.run(name, tf, "tensorflow.python")
    except Exception as e:
        found[name] = f"{type(e).__name__}: {e}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ours() -> dict[str, Any]:
    command = [sys.executable, "-c", PROGRAM, str(Path(stock_snippets.__file__).parent)]
    found: dict[str, Any] = json.loads(subprocess.check_output(command, text=True, timeout=300).splitlines()[-1])
    return found


@pytest.mark.parametrize("name", stock_snippets.SNIPPETS)
def test_gives_what_stock_tensorflow_gives(name: str, ours: dict[str, Any]) -> None:
    found = ours[name]
    assert not isinstance(found, str), found
    assert len(found) == len(STOCK[name])
    for mine, other in zip(found, STOCK[name], strict=True):
        assert mine["type"] == other["type"]
        assert tf.TensorShape(mine["shape"]).is_compatible_with(other["shape"]), (mine["shape"], other["shape"])
        if isinstance(np.asarray(other["value"]).flat[0] if np.size(other["value"]) else 0, str):
            assert mine["value"] == other["value"]
        else:
            np.testing.assert_allclose(mine["value"], other["value"], rtol=2e-4, atol=2e-4)


def test_gradients_of_control_flow_that_a_session_has_run() -> None:
    x = tf.placeholder(tf.float32, [3])
    branch = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x) * x, lambda: x)
    _, power = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * x), [0, x])
    feed = {x: [1.0, 2.0, 0.5]}
    with tf.Session() as session:
        before = session.run([branch, power], feed)
        slopes = session.run([tf.gradients(branch, x)[0], tf.gradients(power, x)[0]], feed)
        after = session.run([branch, power], feed)
    np.testing.assert_allclose(slopes[0], [np.e * 2, np.e**2 * 3, np.e**0.5 * 1.5], rtol=1e-5)
    np.testing.assert_allclose(slopes[1], [4, 32, 0.5], rtol=1e-5)
    np.testing.assert_array_equal(before, after)


def test_gradients_of_control_flow_with_variables_that_a_session_has_run() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        v = tf.get_variable("v", initializer=3.0, use_resource=True)
        branch = tf.cond(x > 0, lambda: tf.exp(x) * v * v, lambda: x)
        _, power = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * v), [0, x])
        case = tf.switch_case(tf.constant(1), [lambda: x, lambda: v * v * x])
        call = tf.function(lambda a: a * v * v)(x)
        with tf.Session() as session:
            session.run(v.initializer)
            values = [branch, power, case, call]
            before = session.run(values, {x: 1.0})
            slopes = [session.run(tf.gradients(value, v)[0], {x: 1.0}) for value in values]
            after = session.run(values, {x: 1.0})
        np.testing.assert_allclose(slopes, [np.e * 6, 27, 6, 6], rtol=1e-5)
        np.testing.assert_array_equal(before, after)


def test_an_extension_that_cannot_be_placed_leaves_grown_control_flow_as_it_was() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])
        branch = tf.cond(x > 0, lambda: tf.exp(x) * x, lambda: x)
        with tf.Session() as session:
            session.run(branch, {x: 1.0})
            slope = tf.gradients(branch, x)[0]
            with tf.device("/gpu:7"):
                _ = branch + 1.0
            for _ in range(2):
                # The same each time: what could be tried again once the device is there is the same, too.
                with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device"):
                    session.run(slope, {x: 1.0})
