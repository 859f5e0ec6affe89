"""Compare the gradients the front end builds with central differences, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.gradients import as_dense, gradients
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.ops import array_ops, math_ops
from tests.support.interpreter import Interpreter

STEP = 1e-5


def real(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed + sum(shape)).normal(size=shape))


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed + sum(shape)).uniform(0.3, 2.0, size=shape))


def small(*shape: int, seed: int = 0) -> np.ndarray:
    """In (-0.8, 0.8)."""
    return np.asarray(np.random.default_rng(seed + sum(shape)).uniform(-0.8, 0.8, size=shape))


def complex_(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(real(*shape, seed=seed) + 1j * real(*shape, seed=seed + 100))


def check_gradient(function: Callable[..., Any], *arrays: np.ndarray, static: bool = True) -> None:
    """Assert that d(random weighting of the outputs)/d(each array) is the numeric derivative.

    Args:
        function: tensors to a tensor or a list of them; its static shapes are checked too.
        static: give the placeholders their shapes; else shapes are unknown while the graph is built.
    """
    with np.errstate(all="ignore"), Graph().as_default() as graph:
        inputs = [array_ops.placeholder(dtypes.as_dtype(x.dtype), x.shape if static else None) for x in arrays]
        feeds = {t.name: x for t, x in zip(inputs, arrays)}
        outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        values = Interpreter(graph.as_graph_def()).run([t.name for t in outputs], feeds)
        weights = np.random.default_rng(7)
        terms = []
        for tensor, value in zip(outputs, values):
            assert tensor.shape.is_compatible_with(np.shape(value)), (tensor.shape, np.shape(value))
            for part in (math_ops.real, math_ops.imag) if tensor.dtype.is_complex else (math_ops.real,):
                terms.append(math_ops.reduce_sum(part(tensor) * constant(weights.normal(size=np.shape(value)))))
        loss = math_ops.add_n(terms)
        symbolic = [as_dense(g) for g in gradients(loss, inputs)]
        run = Interpreter(graph.as_graph_def()).run
        for tensor, array, gradient in zip(inputs, arrays, run([g.name for g in symbolic], feeds)):
            want = np.zeros_like(array)
            for index in np.ndindex(array.shape):
                for step in (STEP, 1j * STEP) if array.dtype.kind == "c" else (STEP,):
                    sides = []
                    for sign in (1, -1):
                        moved = np.array(array)
                        moved[index] += sign * step
                        sides.append(float(run([loss.name], {**feeds, tensor.name: moved})[0]))
                    want[index] += (sides[0] - sides[1]) / (2 * STEP) * (1 if step is STEP else 1j)
            assert np.shape(gradient) == array.shape
            np.testing.assert_allclose(gradient, want, 1e-4, 1e-5)
