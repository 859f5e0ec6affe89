"""The circuit by numpy: all amplitudes of all rows at once, a gate being a few operations on halves of the array."""

import numpy as np

MOST_QUBITS = 10


def measure(angles, weights):
    """<Z> of each qubit [rows, qubits]; each row has angles [rows, qubits] and weights [rows, layers, qubits, 2]."""
    rows, qubits = angles.shape
    kind = np.complex64 if angles.dtype == np.float32 else np.complex128
    state = np.zeros((rows, 2**qubits), kind)
    state[:, 0] = 1

    def halves(qubit):
        """The amplitudes where a qubit is 0 and where it is 1, as views."""
        split = state.reshape(rows, 2**qubit, 2, 2 ** (qubits - qubit - 1))
        return split[:, :, 0], split[:, :, 1]

    def cos_sin(angle):
        return np.cos(angle / 2)[:, None, None], np.sin(angle / 2)[:, None, None]

    for qubit in range(qubits):
        zero, one = halves(qubit)
        cos, sin = cos_sin(angles[:, qubit])
        zero[...], one[...] = cos * zero - 1j * sin * one, cos * one - 1j * sin * zero  # RX
    for layer in range(weights.shape[1]):
        for qubit in range(qubits):
            zero, one = halves(qubit)
            cos, sin = cos_sin(weights[:, layer, qubit, 0])
            zero[...], one[...] = cos * zero - sin * one, sin * zero + cos * one  # RY
            cos, sin = cos_sin(weights[:, layer, qubit, 1])
            zero *= cos - 1j * sin  # RZ
            one *= cos + 1j * sin
        for qubit in range(qubits if qubits > 1 else 0):
            _flip_where(state, qubit, (qubit + 1) % qubits)  # CNOT
    chances = (state.real**2 + state.imag**2).reshape(rows, *[2] * qubits)
    axes = range(1, qubits + 1)
    return np.stack(
        [(sums := chances.sum(axis=tuple(a for a in axes if a != axis)))[:, 0] - sums[:, 1] for axis in axes], axis=1
    )


def _flip_where(state, control, target):
    """Exchange the amplitudes of 0 and 1 of `target` where `control` is 1."""
    qubits = state.shape[1].bit_length() - 1
    split = state.reshape(len(state), *[2] * qubits)
    at = [slice(None)] * (qubits + 1)
    at[control + 1] = 1
    part = split[tuple(at)]
    axis = target + 1 if target < control else target
    part[...] = np.flip(part, axis).copy()
