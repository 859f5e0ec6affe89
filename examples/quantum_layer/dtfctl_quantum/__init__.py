"""A layer that is a simulated quantum circuit: angles go in, what would be measured comes out, and it has a gradient.

With n qubits (a number for each input), the circuit is

    RX(angles[i]) on each qubit i                                              the input is written into the qubits
    for each layer:  RY(weights[l, i, 0]), RZ(weights[l, i, 1]) on each qubit i     what is learned
                     CNOT from each qubit i to the next one, in a ring              qubits come to depend on each other
    <Z> of each qubit: 1 if it would always be measured as 0, -1 if always as 1

The gradient is by parameter shift, as it is measured on a real quantum computer: what a circuit gives depends on each
of its angles as a sine does, so the slope is (f(angle + pi/2) - f(angle - pi/2)) / 2, exactly.
"""

import math

import dtfctl.runtime as tf
from dtfctl_quantum import circuit, gpu

MOST_QUBITS = circuit.MOST_QUBITS


def _shapes(op):
    angles, weights = (op.inputs[i].shape for i in range(2))
    angles.assert_has_rank(2)
    weights.assert_has_rank(3)
    qubits = angles[1].merge_with(weights[1])
    weights[2].assert_is_compatible_with(2)
    if qubits.value is not None and not 1 <= qubits.value <= MOST_QUBITS:
        raise ValueError(f"{qubits.value} qubits: this layer simulates 1 to {MOST_QUBITS}")
    return angles, weights


@tf.define_op(
    "QuantumLayer(angles: T, weights: T) -> (expected: T); T: type in {float, double} = float",
    shape=lambda op: [_shapes(op)[0]],
    gradient=lambda op, grad: quantum_layer_grad(op.inputs[0], op.inputs[1], grad),
)
def quantum_layer(angles, weights, name=None):
    """What is measured of each qubit, on average: for angles [batch, qubits] and weights [layers, qubits, 2]."""


@tf.define_op(
    "QuantumLayerGrad(angles: T, weights: T, grad: T) -> (by_angles: T, by_weights: T); "
    "T: type in {float, double} = float",
    shape=_shapes,
)
def quantum_layer_grad(angles, weights, grad, name=None):
    """The slopes of sum(grad * quantum_layer(angles, weights)) by the angles and by the weights."""


def _checked(angles, weights):
    fits = angles.ndim == 2 and weights.ndim == 3 and weights.shape[1:] == (angles.shape[1], 2)
    if not fits or not 1 <= angles.shape[1] <= MOST_QUBITS:
        raise tf.errors.InvalidArgumentError(
            None, None, f"angles {angles.shape} do not go with weights {weights.shape} of 1 to {MOST_QUBITS} qubits"
        )


def slopes(xp, measure, angles, weights, grad):
    """Both gradients, by two measurements for each angle of the circuit."""
    batch, qubits = angles.shape
    by_angles, by_weights = xp.empty_like(angles), xp.empty_like(weights)
    rows = xp.repeat(weights[None], 2 * batch, axis=0)  # the same weights for each row, of which one is shifted

    def slope(shifted_angles, shifted_weights):
        """How fast each row's result grows: [batch]."""
        both = measure(shifted_angles, shifted_weights)
        return ((both[:batch] - both[batch:]) * grad).sum(axis=1) / 2

    twice = xp.concatenate([angles, angles])
    for qubit in range(qubits):
        shifted = twice.copy()
        shifted[:batch, qubit] += math.pi / 2
        shifted[batch:, qubit] -= math.pi / 2
        by_angles[:, qubit] = slope(shifted, rows)
    for layer in range(weights.shape[0]):
        for qubit in range(qubits):
            for turn in range(2):
                shifted = rows.copy()
                shifted[:batch, layer, qubit, turn] += math.pi / 2
                shifted[batch:, layer, qubit, turn] -= math.pi / 2
                by_weights[layer, qubit, turn] = slope(twice, shifted).sum()
    return by_angles, by_weights


def _measured(xp, measure, angles, weights):
    _checked(angles, weights)
    return measure(angles, xp.repeat(weights[None], angles.shape[0], axis=0))


def _slopes(xp, measure, angles, weights, grad):
    _checked(angles, weights)
    if grad.shape != angles.shape:
        raise tf.errors.InvalidArgumentError(None, None, f"a gradient {grad.shape} of expected values {angles.shape}")
    return slopes(xp, measure, angles, weights, grad)


def _register(devices, measure_of):
    @tf.register_kernel("QuantumLayer", devices=devices, T=(tf.float32, tf.float64))
    def _layer(build):
        xp, measure = build.xp, measure_of(build.xp)
        return lambda angles, weights: _measured(xp, measure, angles, weights)

    @tf.register_kernel("QuantumLayerGrad", devices=devices, T=(tf.float32, tf.float64))
    def _grad(build):
        xp, measure = build.xp, measure_of(build.xp)
        return lambda angles, weights, grad: _slopes(xp, measure, angles, weights, grad)


_register(("CPU",), lambda numpy: circuit.measure)
_register(("GPU",), gpu.measure_of)
