"""The circuit on a GPU: CUDA source, which cupy compiles at its first use for the type that is needed."""

from functools import cache
from importlib import resources

import numpy as np

from dtfctl_quantum.circuit import MOST_QUBITS

_MATH = {
    "float32": ("float", "cosf", "sinf"),
    "float64": ("double", "cos", "sin"),
}
THREADS, MOST_BLOCKS = 128, 65535


@cache
def source(element: str) -> str:
    """Write the whole program for float32 or float64."""
    kind, cos, sin = _MATH[element]
    head = f"typedef {kind} T;\n#define COS {cos}\n#define SIN {sin}\n#define MOST {2**MOST_QUBITS}\n"
    return head + (resources.files(__package__) / "circuit.cu").read_text("utf-8")


@cache
def _compiled(cupy, element):
    return cupy.RawModule(code=source(element)).get_function("circuit")


def measure_of(cupy):
    """Give what `circuit.measure` is, for arrays of a GPU."""

    def measure(angles, weights):
        angles, weights = cupy.ascontiguousarray(angles), cupy.ascontiguousarray(weights)
        out = cupy.empty_like(angles)
        rows, qubits = angles.shape
        if rows:
            sizes = (np.int64(rows), np.int64(qubits), np.int64(weights.shape[1]))
            run = _compiled(cupy, angles.dtype.name)
            run((min(rows, MOST_BLOCKS),), (THREADS,), (angles, weights, out, *sizes))
        return out

    return measure
