"""Small TF1 programs whose values stock TensorFlow has computed: `data/MODULE.json` is what each gave there.

A module of programs has PROGRAMS: a name, and a function that takes the `tf` module and gives a flat list of arrays.
To make the files anew: `python -m tests.unit.names.programs MODULE...` where TensorFlow 2.21 is installed.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        flat = [v if isinstance(v, bytes) else str(v).encode() for v in array.reshape(-1).tolist()]
        return {"strings": [base64.b64encode(v).decode() for v in flat], "shape": list(array.shape)}
    if array.dtype.kind == "c":
        return {"dtype": str(array.dtype), "parts": [array.real.tolist(), array.imag.tolist()]}
    plain = {"dtype": str(array.dtype), "value": array.tolist()}
    return plain if array.size else {**plain, "shape": list(array.shape)}


def expected(module: str) -> dict[str, list[Any]]:
    """What TensorFlow gave for each program of a module."""
    found: dict[str, list[Any]] = json.loads((DATA / f"{module}.json").read_text())
    return found


def check(program: Any, tf: Any, want: list[Any], tolerance: float = 1e-5) -> None:
    """Run a program here and compare shapes, types and values with TensorFlow's."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        got = [np.asarray(value) for value in program(tf)]
    assert len(got) == len(want)
    for value, wanted in zip(got, want):
        if "strings" in wanted:
            flat = [v if isinstance(v, bytes) else str(v).encode() for v in value.reshape(-1).tolist()]
            assert (flat, list(value.shape)) == (
                [base64.b64decode(v) for v in wanted["strings"]],
                wanted["shape"],
            )
            continue
        reference = np.asarray(
            wanted["value"]
            if "value" in wanted
            else np.asarray(wanted["parts"][0]) + 1j * np.asarray(wanted["parts"][1]),
            wanted["dtype"],
        )
        if not reference.size:
            reference = reference.reshape(wanted["shape"])
        assert (value.dtype, value.shape) == (reference.dtype, reference.shape)
        if reference.dtype.kind in "iub":
            np.testing.assert_array_equal(value, reference)
        else:
            np.testing.assert_allclose(value, reference, tolerance, tolerance)


def main(modules: list[str]) -> None:
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    for module in modules:
        answers = {}
        for name, program in importlib.import_module(f"tests.unit.names.{module}_programs").PROGRAMS.items():
            with tf.Graph().as_default():
                tf.set_random_seed(1)
                answers[name] = [_plain(value) for value in program(tf)]
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in sorted(answers.items()))
        DATA.mkdir(exist_ok=True)
        (DATA / f"{module}.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
