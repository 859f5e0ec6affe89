"""Write what PennyLane computes for the circuit of examples/quantum_layer, which a test holds ours to.

    pip install pennylane && python tools/gen_pennylane.py

It is not a dependency: 400 MB, and the values do not change.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pennylane as qml  # type: ignore[import-not-found]

FILE = Path(__file__).parents[1] / "tests" / "unit" / "examples" / "pennylane_values.json"


def case(qubits: int, layers: int, seed: int) -> dict[str, Any]:
    """Give angles and weights, the expected values of each qubit, and the slopes of their sum, weighted by `grad`."""
    draw = np.random.default_rng(seed)
    angles, weights = draw.uniform(-3, 3, (2, qubits)), draw.uniform(-3, 3, (layers, qubits, 2))
    grad = draw.normal(size=(2, qubits))

    @qml.qnode(qml.device("default.qubit", wires=qubits), diff_method="parameter-shift")
    def circuit(row: Any, turns: Any) -> Any:
        for i in range(qubits):
            qml.RX(row[i], wires=i)
        for layer in range(layers):
            for i in range(qubits):
                qml.RY(turns[layer, i, 0], wires=i)
                qml.RZ(turns[layer, i, 1], wires=i)
            for i in range(qubits if qubits > 1 else 0):
                qml.CNOT(wires=[i, (i + 1) % qubits])
        return [qml.expval(qml.PauliZ(i)) for i in range(qubits)]

    def weighed(rows: Any, turns: Any) -> Any:
        return sum(qml.numpy.sum(qml.numpy.stack(circuit(rows[b], turns)) * grad[b]) for b in range(len(grad)))

    needed = [qml.numpy.array(x, requires_grad=True) for x in (angles, weights)]
    by_angles, by_weights = qml.grad(weighed)(*needed)
    values = np.array([circuit(row, weights) for row in angles])
    found = {"angles": angles, "weights": weights, "grad": grad, "expected": values}
    found |= {"by_angles": by_angles, "by_weights": by_weights}
    return {name: np.asarray(value, np.float64).tolist() for name, value in found.items()}


if __name__ == "__main__":
    cases = [case(1, 1, 1), case(2, 2, 2), case(3, 2, 3), case(4, 1, 4)]
    FILE.write_text(json.dumps({"pennylane": qml.__version__, "cases": cases}) + "\n")
