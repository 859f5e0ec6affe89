"""Run programs with one front end and write down what they did.

As a program, for TensorFlow: `python -m tests.interop.fronts.record OUT CHECKPOINTS [NAME...]`. It is run by Python 3.7
too, which TensorFlow 1.15 is for.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.fronts.programs import OLDER, PROGRAMS

# What is longer is written down as its first elements, its sum and its largest.
LONGEST = 24


def describe(value: Any, tf: Any) -> Any:
    """A fetched value as JSON."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, bytes):
        return _summary(value, tf)
    if isinstance(value, dict):
        return {str(k): describe(v, tf) for k, v in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [describe(v, tf) for v in value]
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        flat: list[Any] = [v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in array.ravel()]
    elif array.dtype.kind in "biu":
        flat = [int(v) for v in array.ravel()]
    else:
        flat = [round_(v) for v in array.ravel()]
        if len(flat) > LONGEST:
            flat = [*flat[:LONGEST], round_(array.sum()), round_(np.abs(array).max())]
    return {
        "dtype": array.dtype.name if array.dtype.kind != "O" else "string",
        "shape": list(array.shape),
        "values": flat,
    }


def _summary(data: bytes, tf: Any) -> Any:
    """Tags and numbers of a serialized summary; pictures are encoded by libraries that differ."""
    from google.protobuf.message import DecodeError

    summary = tf.Summary()
    try:
        summary.ParseFromString(data)
    except DecodeError:
        return data.decode("latin-1")
    found = [[v.tag, v.WhichOneof("value"), v.simple_value, v.histo.sum] for v in summary.value]
    return found or data.decode("latin-1")


def round_(value: Any) -> float:
    return float(f"{float(value):.7g}")


def run(tf: Any, name: str, checkpoint: str, restore: str | None = None) -> dict[str, Any]:
    """Run one program. Its variables are saved as `checkpoint` at the end, and read from `restore` if given."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(7)
        steps = {**PROGRAMS, **OLDER}[name](tf)
        variables = tf.global_variables() + [v for v in tf.local_variables() if v not in tf.global_variables()]
        init = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        saver = tf.train.Saver() if tf.global_variables() else None
        nodes = [[n.name, n.op] for n in graph.as_graph_def().node]
        values = []
        with tf.Session() as session:
            session.run(init)
            initial = [describe(v, tf) for v in session.run(variables)] if variables else []
            for fetches, feed in steps:
                values.append(describe(session.run(fetches, feed), tf))
            restored = None
            if saver is not None:
                saver.save(session, checkpoint, write_meta_graph=False)
                if restore is not None:
                    session.run(init)
                    saver.restore(session, restore)
                    restored = [describe(v, tf) for v in session.run(tf.global_variables())]
        saved = {}
        if saver is not None:
            reader = tf.train.NewCheckpointReader(checkpoint)
            saved = {k: describe(reader.get_tensor(k), tf) for k in sorted(reader.get_variable_to_shape_map())}
    kinds = [[v.name, v.shape.as_list(), v.dtype.base_dtype.name, bool(v.trainable)] for v in variables]
    return {
        "nodes": nodes,
        "variables": kinds,
        "trainable": [v.name for v in graph.get_collection("trainable_variables")],
        "initial": initial,
        "values": values,
        "saved": saved,
        "restored": restored,
    }


def main(out: str, checkpoints: str, *names: str) -> None:
    import tensorflow

    older = tensorflow.__version__.startswith("1.")
    tf = tensorflow if older else tensorflow.compat.v1
    if not older:
        tf.disable_v2_behavior()
    records: dict[str, Any] = {}
    for name in names or (OLDER if older else PROGRAMS):
        restore = f"{checkpoints}/ours/{name}"
        try:
            found = Path(f"{restore}.index").exists()
            records[name] = run(tf, name, f"{checkpoints}/theirs/{name}", restore if found else None)
        except Exception as e:
            records[name] = {"error": f"{type(e).__name__}: {e}"}
        write(out, records)


def write(out: str | Path, records: dict[str, Any]) -> None:
    """Write the records down; a run that is cut keeps those of the programs that were through."""
    part = Path(f"{out}.part")
    with part.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as file:
        file.write(json.dumps(records, separators=(",", ":")).encode())
    part.replace(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
