"""Functions give here what they give with TensorFlow.

What TensorFlow 2.21 gave is in golden.json. With DTF_TEST_TENSORFLOW set it is asked again; DTF_TEST_RECORD=1 then
replaces the golden results.
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
from tests.interop.functions.cases import CASES
from tests.interop.ragged.cases import run

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json"


def close(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, 1e-4, 2e-5))
    return bool(a == b)


@pytest.mark.parametrize("name", CASES)
def test_functions_give_what_they_give_with_tensorflow(name: str) -> None:
    if name == "cropped_jpegs":
        pytest.importorskip("PIL")
    want, have = json.loads(GOLDEN.read_text())[name], run(tf, CASES[name])
    assert len(have) == len(want)
    for i, (mine, theirs) in enumerate(zip(have, want)):
        assert close(mine, theirs), (i, mine, theirs)


def test_live(tensorflow_python: str, tmp_path: Path) -> None:
    subprocess.run(
        [tensorflow_python, "-m", "tests.interop.functions.cases", str(tmp_path / "out.json")],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_USE_LEGACY_KERAS": "1"},
        timeout=600,
    )
    if os.environ.get("DTF_TEST_RECORD"):
        GOLDEN.write_text((tmp_path / "out.json").read_text())
    theirs, golden = json.loads((tmp_path / "out.json").read_text()), json.loads(GOLDEN.read_text())
    for name in CASES:
        assert close(theirs[name], golden[name]), name
