"""Saved datasets, caches in files and graphs of datasets are read both ways by the runtime and stock TensorFlow."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import dtfctl.runtime as tf
from dtfctl.runtime.data.dataset import Dataset

SCRIPT = Path(__file__).resolve().parent / "stock_datasets.py"
COMPRESSIONS = ("", "GZIP", "SNAPPY")


def dataset() -> Any:
    return tf.data.Dataset.from_tensor_slices(
        {"x": np.arange(12, dtype=np.float32).reshape(4, 3), "y": np.array([b"a", b"", b"\0c", b"d" * 300])}
    )


def changed() -> Any:
    return dataset().map(lambda e: {"x": e["x"] * 2.0, "y": tf.string_join([e["y"], "!"])}).batch(2)


def elements(source: Any) -> list[tuple[list[float], Any]]:
    following = source.make_one_shot_iterator().get_next()
    out: list[tuple[list[float], Any]] = []
    with tf.Session() as session:
        while True:
            try:
                element = session.run(following)
            except tf.errors.OutOfRangeError:
                return out
            texts = element["y"]
            out.append((element["x"].tolist(), texts.tolist() if isinstance(texts, np.ndarray) else texts))


def test_saved_datasets_caches_and_graphs_are_read_both_ways(tensorflow_python: str, tmp_path: Path) -> None:
    with tf.Graph().as_default():
        want = elements(dataset())
        with tf.Session() as session:
            graph = session.run(tf.raw_ops.DatasetToGraphV2(input_dataset=changed().variant))
            (tmp_path / "ours.graph").write_bytes(graph)
            for compression in COMPRESSIONS:
                session.run(dataset().save(f"{tmp_path}/ours{compression}", compression=compression or None))
        assert elements(dataset().cache(f"{tmp_path}/ourcache")) == want
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        command = [tensorflow_python, str(SCRIPT), str(tmp_path)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert ended.returncode == 0, ended.stderr[-4000:]
        spec = {"x": tf.TensorSpec([3], tf.float32), "y": tf.TensorSpec([], tf.string)}
        for compression in COMPRESSIONS:
            theirs = tf.data.Dataset.load(f"{tmp_path}/theirs{compression}", spec, compression=compression or None)
            assert elements(theirs) == want
        assert elements(dataset().take(0).cache(f"{tmp_path}/theircache")) == want
        theirs = tf.raw_ops.DatasetFromGraph(graph_def=(tmp_path / "theirs.graph").read_bytes())
        assert elements(Dataset(theirs, changed().structure)) == elements(changed())
