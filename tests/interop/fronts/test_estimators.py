"""Estimators find here what they find with TensorFlow 1.15: metrics, predictions, variables, checkpoints, summaries.

What it found is in golden_estimators.json; with DTF_TEST_TENSORFLOW_1 set it is asked again, and evaluates what was
trained here; DTF_TEST_RECORD=1 then replaces the golden results.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import dtfctl.runtime as tf
from tests.interop.fronts.estimators import PROGRAMS, again, run
from tests.interop.fronts.test_fronts import close

HERE = Path(__file__).parent
GOLDEN = HERE / "golden_estimators.json"


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_estimator_finds_what_it_finds_with_tensorflow(name: str, tmp_path: Path) -> None:
    want = json.loads(GOLDEN.read_text())[name]
    have = json.loads(json.dumps(run(tf, name, str(tmp_path))))
    assert have.keys() == want.keys()
    for key in want:
        assert close(have[key], want[key]), (key, have[key], want[key])


def test_estimators_live(tmp_path: Path) -> None:
    """TensorFlow still finds what is golden, and each goes on with what the other has trained."""
    python = os.environ.get("DTF_TEST_TENSORFLOW_1")
    if not python:
        pytest.skip("set DTF_TEST_TENSORFLOW_1 to the python of an environment with tensorflow==1.15")
    (tmp_path / "ours").mkdir()
    mine = run(tf, "own_model", str(tmp_path / "ours"))
    subprocess.run(
        [python, "-m", "tests.interop.fronts.estimators", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        timeout=600,
    )
    theirs: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
    if os.environ.get("DTF_TEST_RECORD"):
        GOLDEN.write_text(json.dumps({name: theirs[name] for name in PROGRAMS}, indent=1) + "\n")
    golden = json.loads(GOLDEN.read_text())
    for name in PROGRAMS:
        assert close(theirs[name], golden[name]), name
    assert close(theirs["again"], json.loads(json.dumps(again(tf, str(tmp_path / "theirs" / "own_model")))))
    assert mine["second"]["global_step"] + 3 == theirs["again"]["global_step"]
