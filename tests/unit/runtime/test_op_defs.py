"""The table of ops: what an entry says is what the op does, and adding an op is one entry and one kernel."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.registries import find_gradient
from dtfctl.runtime.ops import op_defs


@tf.define_op(
    "TestTwist(x: T, by: T) -> (y: T); turns: int = 2; T: type in {float, double}",
    shape="broadcast",
    gradient=lambda op, grad: [grad * op.get_attr("turns"), None],
    renamed={"angle": "by"},
)
def twist(x: Any, angle: Any, turns: int = 2, name: str | None = None) -> tf.Tensor:
    """turns * x + angle."""


@tf.register_kernel("TestTwist")
def _kernel(build: Any) -> Any:
    turns = build.attr("turns")
    return lambda x, by: turns * x + by


def test_an_op_is_one_entry_and_one_kernel() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3])
        y = twist(x, [1.0, 2.0, 3.0], turns=4, name="here")
        assert (y.op.type, y.op.name, y.shape.as_list()) == ("TestTwist", "here", [None, 3])
        [slope] = tf.gradients(y, x)
        assert session.run([y, slope], {x: np.ones([1, 3])})[0].tolist() == [[5, 6, 7]]
        assert session.run(slope, {x: np.ones([1, 3])}).tolist() == [[4, 4, 4]]


def test_an_entry_is_checked_like_any_function_and_any_signature() -> None:
    with tf.Graph().as_default():
        with pytest.raises(TypeError, match=r"twist\(\) missing 1 required positional argument: 'angle'"):
            twist([1.0])
        with pytest.raises(TypeError, match=r"twist\(\) got an unexpected keyword argument 'by'"):
            twist([1.0], by=[1.0])
        with pytest.raises(ValueError, match=r"Dimensions must be equal, but are \(2,\) and \(3,\) for 'TestTwist'"):
            twist([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="'TestTwist' is registered already"):
        tf.define_op("TestTwist(x: float) -> (y: float)")
    with pytest.raises(tf.errors.InvalidArgumentError, match="not of the form"):
        tf.define_op("TestTwist")


def test_shapes_and_gradients_that_are_said_in_a_word() -> None:
    tf.define_op("TestPair(x: float, y: float) -> (a: float, b: int32)", shape=[(), (None, 2)], gradient="none")
    tf.define_op("TestAlike(x: float, y: float) -> (z: float)", shape="merged")
    with tf.Graph().as_default():
        a, b = tf.apply_op("TestPair", x=1.0, y=2.0)
        assert (a.shape.as_list(), b.shape.as_list()) == ([], [None, 2])
        assert find_gradient("TestPair") is None
        with pytest.raises(LookupError):
            find_gradient("TestAlike")
        with pytest.raises(ValueError, match="Shapes must be equal"):
            tf.apply_op("TestAlike", x=[1.0], y=[1.0, 2.0])


def test_the_functions_of_the_table_look_like_functions() -> None:
    assert str(inspect.signature(tf.nn.relu)) == "(features: 'Any', name: 'str | None' = None) -> 'Tensor'"
    assert (tf.nn.relu.__name__, tf.nn.relu.__doc__) == ("relu", "Compute max(x, 0).")
    assert list(inspect.signature(tf.acos).parameters) == ["x", "name"]


def test_every_function_of_the_table_takes_what_its_signature_does() -> None:
    seen = 0
    for module in pkgutil.iter_modules(op_defs.__path__):
        for function in vars(importlib.import_module(f"{op_defs.__name__}.{module.name}")).values():
            op_type = getattr(function, "op_type", None)
            if op_type is None:
                continue
            seen += 1
            signature = get_signature(op_type)
            known = {a.name for a in signature.inputs} | {a.name for a in signature.attrs} | {"name"}
            given = set(function.arguments.values())
            assert given <= known, op_type
            needed = {a.name for a in signature.inputs} | {
                a.name for a in signature.attrs if a.default is None and a.name not in signature.inferred_attrs
            }
            assert needed <= given, op_type
            assert inspect.getdoc(function), op_type
    assert seen > 50


def test_gradients_of_the_table_need_nothing_imported_before() -> None:
    program = """
from dtfctl.runtime.framework import convert, gradients, graph, op_builder
with graph.Graph().as_default():
    x = convert.constant([1.0, -2.0])
    print(gradients.gradients(op_builder.apply_op("Abs", x=x), x)[0].op.type)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "Mul\n", done.stderr
