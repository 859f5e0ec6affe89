"""Ragged tensors come to the same here as with TensorFlow: values, shapes, gradients, and TensorFlow's own graphs.

What TensorFlow 2.21 gave is in golden.json. With DTF_TEST_TENSORFLOW set it is asked again; DTF_TEST_RECORD=1 then
replaces the golden results.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.ops.ragged_ops.dispatch import OF_ELEMENTS, OWN, for_ragged
from tests.interop.ragged.cases import CASES, GRAPH, described, run

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"


def close(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, 1e-5, 1e-6))
    return bool(a == b)


@pytest.mark.parametrize("name", CASES)
def test_ragged_tensors_come_to_what_they_come_to_with_tensorflow(name: str) -> None:
    want, have = json.loads(GOLDEN.read_text())[name], run(tf, CASES[name])
    assert len(have) == len(want)
    for i, (mine, theirs) in enumerate(zip(have, want)):
        assert close(mine, theirs), (i, mine, theirs)


def test_a_graph_that_tensorflow_made_of_ragged_tensors_runs_on_a_server() -> None:
    made = json.loads(GOLDEN.read_text())[GRAPH]
    definition = tf.GraphDef.FromString(base64.b64decode(made["graph"]))
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default():
        fetches = tf.import_graph_def(definition, return_elements=made["fetches"], name="")
        with tf.Session(server.target) as session:
            assert json.loads(json.dumps(described(session.run(fetches)))) == made["values"]


def test_live(tensorflow_python: str, tmp_path: Path) -> None:
    subprocess.run(
        [tensorflow_python, "-m", "tests.interop.ragged.cases", str(tmp_path / "out.json")],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        timeout=600,
    )
    if os.environ.get("DTF_TEST_RECORD"):
        GOLDEN.write_text((tmp_path / "out.json").read_text())
    theirs, golden = json.loads((tmp_path / "out.json").read_text()), json.loads(GOLDEN.read_text())
    for name in CASES:
        assert close(theirs[name], golden[name]), name


def test_functions_of_the_table_are_there() -> None:
    """Each name that takes ragged tensors is one of `tf`'s, and what is called instead exists."""
    for name in (*OF_ELEMENTS, *OWN):
        found: Any = tf
        for word in name.split("."):
            found = getattr(found, word)
        assert hasattr(found, "__wrapped__"), name
        assert callable(for_ragged(found, name)), name


def test_features_are_crossed_of_values_as_of_tensors() -> None:
    """What a session has fetched is taken where a tensor is."""
    rows = tf.ragged.constant_value([["a"], ["b", "c"]])
    sparse = tf.SparseTensorValue([[0, 0], [1, 0]], ["x", "y"], [2, 1])
    with tf.Graph().as_default(), tf.Session() as session:
        crossed = session.run(tf.ragged.cross([rows, sparse]))
    assert crossed.to_list() == [[b"a_X_x"], [b"b_X_y", b"c_X_y"]]
