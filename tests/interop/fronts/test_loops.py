"""Loops in MetaGraphs that TensorFlow wrote have the gradients it gives; DTF_TEST_RECORD=1 records them again."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.interop.fronts.loops import PROGRAMS, differentiated

GOLDEN = Path(__file__).parent / "golden_loops.json.gz"


def _load(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        return dict(json.load(file))


def _same(mine: list[Any], theirs: list[Any]) -> None:
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_imported_loop_has_gradients(name: str, tmp_path: Path) -> None:
    record = _load(GOLDEN)[name]
    meta = tmp_path / "m.meta"
    meta.write_bytes(base64.b64decode(record["meta"]))
    _same(differentiated(tf, str(meta), record["initial"]), record["found"])


def test_two_graphs_with_loops_of_one_name(tmp_path: Path) -> None:
    """Their functions do not meet, and what is written again has no loop of version 1."""
    records = _load(GOLDEN)
    for name in ("plain", "asserted"):
        (tmp_path / name).write_bytes(base64.b64decode(records[name]["meta"]))
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(str(tmp_path / "plain"))
        tf.train.import_meta_graph(str(tmp_path / "asserted"), import_scope="other")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = session.run(["y:0", "other/y:0"], {"x:0": [1.0, 2.0, 0.5], "other/x:0": [1.0, 2.0, 0.5]})
        written = tf.train.export_meta_graph()
        assert not graph.get_collection("while_context")
    _same([v.tolist() for v in found], [records["plain"]["found"][0], records["asserted"]["found"][0]])
    assert {n.op for n in written.graph_def.node} & {"Enter", "Exit", "NextIteration"} == set()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(written)


def test_tensorflow_gives_what_is_recorded(tensorflow_python: str, tmp_path: Path) -> None:
    subprocess.run(
        [tensorflow_python, "-m", "tests.interop.fronts.loops", str(tmp_path / "out.gz"), str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=GOLDEN.parents[3],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_USE_LEGACY_KERAS": "1"},
        timeout=600,
    )
    if os.environ.get("DTF_TEST_RECORD"):
        shutil.copy(tmp_path / "out.gz", GOLDEN)
    recorded, found = _load(GOLDEN), _load(tmp_path / "out.gz")
    assert recorded.keys() == found.keys()
    for name, record in found.items():
        _same(record["found"], recorded[name]["found"])
