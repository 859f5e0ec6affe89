"""Programs with tf.keras come to the same here as with TensorFlow: histories, weights, names, checkpoints.

What TensorFlow 2.21 with legacy Keras gave is in golden.json. With DTF_TEST_TENSORFLOW set the programs are run with it
again, and checkpoints cross both ways; DTF_TEST_RECORD=1 then replaces the golden results.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.interop.keras.programs import NEEDS, PROGRAMS, restore, save
from tests.interop.keras.record import run
from tests.interop.keras.whole_programs import crossed

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"


def close(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return bool(np.isclose(a, b, 2e-4, 2e-5))
    return bool(a == b)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_comes_to_what_it_comes_to_with_tensorflow(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    want = json.loads(GOLDEN.read_text())[name]
    have = run(tf, PROGRAMS[name], str(tmp_path))
    for key, value in want.items():
        assert close(have[key], value), (key, have[key], value)


def test_models_that_keras_saved_whole_go_on_as_they_do_with_it() -> None:
    """The files in whole/ are what the program `whole` saved with TensorFlow."""
    want, have = json.loads(GOLDEN.read_text())["whole"], run(tf, crossed, str(HERE / "whole"))
    for kind, found in have.items():
        for key, value in found.items():
            assert close(value, want[kind][key]), (kind, key, value, want[kind][key])


def test_checkpoints_have_the_names_and_come_back(tmp_path: Path) -> None:
    want = json.loads(GOLDEN.read_text())["save"]
    have = run(tf, save, str(tmp_path))
    assert close(have, want)
    again = run(tf, restore, str(tmp_path))
    assert again["extra"] == 7.0 and close(again["next"], have["next"])


def test_live_programs_and_checkpoints_both_ways(tensorflow_python: str, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    mine = run(tf, save, str(tmp_path / "ours"))
    subprocess.run(
        [tensorflow_python, "-m", "tests.interop.keras.record", str(tmp_path / "out.json"), str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_USE_LEGACY_KERAS": "1"},
        timeout=1200,
    )
    theirs = json.loads((tmp_path / "out.json").read_text())
    assert theirs["restore"]["extra"] == 7.0
    assert close(theirs["restore"]["next"], mine["next"])
    here = run(tf, restore, str(tmp_path / "theirs"))
    assert here["extra"] == 7.0 and close(here["next"], theirs["save"]["next"])
    assert close(here["loaded"], theirs["restore"]["loaded"])
    crossed = theirs.pop("restore")
    assert crossed
    if os.environ.get("DTF_TEST_RECORD"):
        GOLDEN.write_text(json.dumps({**json.loads(GOLDEN.read_text()), **theirs}, indent=1) + "\n")
    golden = json.loads(GOLDEN.read_text())
    assert close(theirs, {name: golden[name] for name in theirs})
