"""Ops run on their own, with the values (or error codes) stock TensorFlow 2.21 gave: data/FAMILY.json.gz.

A case: `op`, `inputs` (a list argument is a list), `attrs` ("dt:NAME" is a type), and `want` or `error`. Arrays are
{"t": dtype name, "s": shape, "v": base64 of the little-endian bytes, or a list of base64 strings}.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.op_signature import get_signature
from tests.support.interpreter import run_op

DATA = Path(__file__).parent / "data"


def decode(a: dict[str, Any]) -> np.ndarray:
    dtype = dtypes.as_dtype(a["t"])
    if dtype is dtypes.string:
        out = np.empty(len(a["v"]), object)
        out[:] = [base64.b64decode(v) for v in a["v"]]
        return out.reshape(a["s"])
    return np.frombuffer(base64.b64decode(a["v"]), dtype.np).reshape(a["s"])


def cases_by_op(family: str) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in json.loads(gzip.decompress((DATA / f"{family}.json.gz").read_bytes())):
        grouped[case["op"]].append(case)
    return grouped


def check(case: dict[str, Any]) -> None:
    attrs = {
        k: dtypes.as_dtype(v[3:]) if isinstance(v, str) and v.startswith("dt:") else v for k, v in case["attrs"].items()
    }
    for arg in get_signature(case["op"]).inputs:
        if arg.name in case.get("quantized", {}):
            attrs[arg.type_attr] = dtypes.as_dtype(case["quantized"][arg.name])
    inputs = [[decode(x) for x in i] if isinstance(i, list) else decode(i) for i in case["inputs"]]
    if "error" in case:
        with pytest.raises(OpError) as caught:
            run_op(case["op"], *inputs, **attrs)
        assert caught.value.error_code == case["error"], caught.value
        return
    with np.errstate(all="ignore"):
        result = run_op(case["op"], *inputs, **attrs)
    got = result if isinstance(result, list) else [result]
    assert len(got) == len(case["want"])
    for g, encoded in zip(got, case["want"]):
        g, want = np.asarray(g), decode(encoded)
        assert g.shape == want.shape
        if want.dtype == object:
            assert g.reshape(-1).tolist() == want.reshape(-1).tolist()
            continue
        assert g.dtype == want.dtype
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(g, want)
        else:
            tolerance = 1e-3 if want.dtype.itemsize > 2 else 3e-2
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(g.astype(wide), want.astype(wide), tolerance, tolerance)
