"""The quantum layer of examples/quantum_layer: values, gradients, and its GPU body through the stand-in for cupy."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.doubles.fake_cupy import compiler, fake_cupy

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def layer() -> Iterator[Any]:
    """The package, as if it were installed."""
    sys.path.insert(0, str(ROOT / "examples" / "quantum_layer"))
    yield importlib.import_module("dtfctl_quantum")
    sys.path.pop(0)


def by_matrices(angles: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What the circuit gives for one row, every gate written out as a matrix of all qubits."""
    qubits = len(angles)
    x, y, z = np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1])

    def on(qubit: int, gate: np.ndarray) -> np.ndarray:
        return reduce(np.kron, [gate if i == qubit else np.eye(2) for i in range(qubits)])

    def turn(axis: np.ndarray, angle: float) -> np.ndarray:
        return np.cos(angle / 2) * np.eye(2) - 1j * np.sin(angle / 2) * axis

    state = np.eye(2**qubits)[0].astype(complex)
    for i in range(qubits):
        state = on(i, turn(x, angles[i])) @ state
    for turns in weights:
        for i in range(qubits):
            state = on(i, turn(z, turns[i, 1])) @ on(i, turn(y, turns[i, 0])) @ state
        for i in range(qubits if qubits > 1 else 0):
            one = on(i, np.diag([0, 1]))
            state = (np.eye(2**qubits) - one + one @ on((i + 1) % qubits, x)) @ state
    return np.array([(state.conj() @ on(i, z) @ state).real for i in range(qubits)])


@pytest.mark.parametrize("qubits", [1, 2, 5])
def test_values_are_those_of_the_matrices_of_the_gates(layer: Any, qubits: int) -> None:
    draw = np.random.default_rng(qubits)
    angles, weights = draw.uniform(-4, 4, (3, qubits)), draw.uniform(-4, 4, (2, qubits, 2))
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(layer.quantum_layer(tf.constant(angles), tf.constant(weights)))
    np.testing.assert_allclose(found, [by_matrices(row, weights) for row in angles], rtol=0, atol=1e-12)


PENNYLANE = json.loads(Path(__file__).with_name("pennylane_values.json").read_text())  # tools/gen_pennylane.py


@pytest.mark.parametrize("case", PENNYLANE["cases"], ids=lambda case: f"{len(case['angles'][0])} qubits")
def test_values_and_gradients_are_pennylanes(layer: Any, case: dict[str, Any]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        angles, weights, grad = (tf.constant(case[name], tf.float64) for name in ("angles", "weights", "grad"))
        expected = layer.quantum_layer(angles, weights)
        found = session.run([expected, *tf.gradients(expected, [angles, weights], grad)])
    for name, value in zip(("expected", "by_angles", "by_weights"), found, strict=True):
        np.testing.assert_allclose(value, case[name], rtol=0, atol=1e-12, err_msg=name)


def test_gradients_are_the_slopes_of_small_differences(layer: Any) -> None:
    draw = np.random.default_rng(3)
    angles, weights = draw.uniform(-3, 3, (2, 3)), draw.uniform(-3, 3, (2, 3, 2))
    grad = draw.normal(size=(2, 3))
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.constant(angles), tf.constant(weights)
        found = session.run(tf.gradients(layer.quantum_layer(*fed), fed, tf.constant(grad)))

    def total(some_angles: np.ndarray, some_weights: np.ndarray) -> float:
        return float(sum(g @ by_matrices(row, some_weights) for g, row in zip(grad, some_angles)))

    small = 1e-5
    for which, slopes in enumerate(found):
        for at in np.ndindex(slopes.shape):
            above, below = [angles.copy(), weights.copy()], [angles.copy(), weights.copy()]
            above[which][at] += small
            below[which][at] -= small
            assert abs((total(*above) - total(*below)) / (2 * small) - slopes[at]) < 1e-8


@pytest.mark.skipif(compiler() is None, reason="needs g++ to run CUDA sources without a GPU")
@pytest.mark.parametrize(("kind", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_the_cuda_source_gives_what_numpy_gives(layer: Any, kind: Any, tolerance: float) -> None:
    cupy = fake_cupy()
    draw = np.random.default_rng(1)
    with cupy.cuda.Device(1):
        measure = layer.gpu.measure_of(cupy)
        for rows, qubits, layers in [(1, 1, 1), (7, 2, 3), (4, 4, 2), (0, 3, 1)]:
            angles = draw.uniform(-4, 4, (rows, qubits)).astype(kind)
            weights = draw.uniform(-4, 4, (layers, qubits, 2)).astype(kind)
            grad = draw.normal(size=(rows, qubits)).astype(kind)
            here = [cupy.asarray(x) for x in (angles, weights, grad)]
            every = np.repeat(weights[None], rows, axis=0)
            found = measure(here[0], cupy.asarray(every)).get()
            assert found.dtype == kind
            np.testing.assert_allclose(found, layer.circuit.measure(angles, every), rtol=0, atol=tolerance)
            there = layer.slopes(cupy, measure, *here)
            ours = layer.slopes(np, layer.circuit.measure, angles, weights, grad)
            for one, other in zip(there, ours):
                np.testing.assert_allclose(one.get(), other, rtol=0, atol=10 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("element", ["float32", "float64"])
def test_the_cuda_source_compiles(layer: Any, element: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings and nvidia-cuda-nvrtc (the dev extra)")
    from tests.support.nvrtc import compile_cubin

    cubin, _ = compile_cubin(layer.gpu.source(element), "sm_90")
    assert cubin[:4] == b"\x7fELF"


def test_what_does_not_fit_is_refused(layer: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(ValueError, match="11 qubits: this layer simulates 1 to 10"):
            layer.quantum_layer(tf.zeros([1, 11]), tf.zeros([1, 11, 2]))
        angles = tf.placeholder(tf.float32, None)
        with pytest.raises(tf.errors.InvalidArgumentError, match="do not go with weights"):
            session.run(layer.quantum_layer(angles, tf.zeros([1, 3, 2])), {angles: np.zeros((1, 2), np.float32)})


@pytest.mark.slow
@pytest.mark.parametrize(("options", "code"), [(["--steps", "150"], 0), (["--steps", "60", "--without"], 1)])
def test_the_job_separates_the_moons_and_cannot_without_the_circuit(options: list[str], code: int) -> None:
    package = ROOT / "examples" / "quantum_layer"
    paths = os.pathsep.join([str(package), str(ROOT), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, package / "job.py", *options],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    assert "accuracy on 400 held-out points" in ran.stdout
