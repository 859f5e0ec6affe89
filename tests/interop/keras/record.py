"""Run programs with TensorFlow and write down what they came to.

`python -m tests.interop.keras.record OUT FOLDER`: also saves in FOLDER/theirs, and restores what is in FOLDER/ours.
Programs that need what is not installed beside TensorFlow are left out.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.keras.programs import NEEDS, PROGRAMS, restore, save


def run(tf: Any, program: Any, folder: str) -> Any:
    """Run one program in a graph of its own."""
    tf.keras.backend.clear_session()
    tf.set_random_seed(7)
    np.random.seed(11)
    return json.loads(json.dumps(program(tf, folder)))


def main(out: str, folder: str) -> None:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as scratch:
        there = {name for name in PROGRAMS if name not in NEEDS or importlib.util.find_spec(NEEDS[name])}
        found = {name: run(tf, program, scratch) for name, program in PROGRAMS.items() if name in there}
    (Path(folder) / "theirs").mkdir()
    found["save"] = run(tf, save, f"{folder}/theirs")
    if (Path(folder) / "ours").exists():
        found["restore"] = run(tf, restore, f"{folder}/ours")
    Path(out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
