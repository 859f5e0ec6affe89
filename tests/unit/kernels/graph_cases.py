"""Small graphs serialized by stock TensorFlow 2.21 with what its steps gave: data/FAMILY_graphs.json.gz.

A case: `name`, `graph` (base64 GraphDef) and `steps`, each a list of names to run with `want` (one array a fetched
tensor) or the code of its `error`.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.errors import OpError
from tests.support.interpreter import Interpreter
from tests.unit.kernels.oracle_cases import DATA, decode

# Relative and absolute. TensorFlow adds half and bfloat16 up in their own precision, the kernels here in float32.
_TOLERANCE = {"float16": (4e-3, 1e-2), "bfloat16": (3e-2, 3e-2), "float64": (1e-6, 1e-7), "complex128": (1e-9, 1e-9)}


def load(family: str) -> dict[str, dict[str, Any]]:
    cases = json.loads(gzip.decompress((DATA / f"{family}_graphs.json.gz").read_bytes()))
    return {case["name"]: case for case in cases}


def check(case: dict[str, Any]) -> None:
    interpreter = Interpreter(graph_pb2.GraphDef.FromString(base64.b64decode(case["graph"])))
    for step in case["steps"]:
        fetches = [name for name in step["names"] if ":" in name]
        targets = [name for name in step["names"] if ":" not in name]
        if "error" in step:
            with pytest.raises(OpError) as caught:
                interpreter.run(fetches, {}, targets)
            assert caught.value.error_code == step["error"], caught.value
            continue
        with np.errstate(all="ignore"):
            results = interpreter.run(fetches, {}, targets)
        for name, got, encoded in zip(fetches, results, step["want"], strict=True):
            _compare(name, np.asarray(got), decode(encoded))


def _compare(name: str, got: np.ndarray, want: np.ndarray) -> None:
    assert got.shape == want.shape, name
    if want.dtype == object:
        assert got.reshape(-1).tolist() == want.reshape(-1).tolist(), name
        return
    assert got.dtype == want.dtype, name
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, name)
        return
    relative, absolute = _TOLERANCE.get(want.dtype.name, (1e-5, 1e-5))
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), relative, absolute, err_msg=name)
