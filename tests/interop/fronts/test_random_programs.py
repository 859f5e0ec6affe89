"""Programs made at random give here what they give with TensorFlow; the first of them are recorded.

With DTF_TEST_TENSORFLOW set, `make nightly` compares hundreds; DTF_TEST_RECORD=1 records the first again.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import dtfctl.runtime as tf
from tests.interop.fronts.random_programs import run
from tests.interop.fronts.test_fronts import close

HERE = Path(__file__).parent
GOLDEN = HERE / "golden_random.json"
RECORDED, NIGHTLY = 24, 400


def theirs(python: str, folder: Path, first: int, count: int) -> Any:
    subprocess.run(
        [python, "-m", "tests.interop.fronts.random_programs", str(folder / "out"), str(first), str(count)],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )
    return json.loads((folder / "out").read_text())


def test_random_programs_give_what_was_recorded() -> None:
    golden = json.loads(GOLDEN.read_text())
    assert len(golden) == RECORDED
    wrong = [number for number, want in golden.items() if not close(json.loads(json.dumps(run(tf, int(number)))), want)]
    assert not wrong


def test_random_programs_live(tensorflow_python: str, tmp_path: Path) -> None:
    found = theirs(tensorflow_python, tmp_path, 0, RECORDED)
    if os.environ.get("DTF_TEST_RECORD"):
        GOLDEN.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    assert close(found, json.loads(GOLDEN.read_text()))


@pytest.mark.nightly
def test_many_random_programs(tensorflow_python: str, tmp_path: Path) -> None:
    found = theirs(tensorflow_python, tmp_path, 1000, NIGHTLY)
    wrong = [number for number, want in found.items() if not close(json.loads(json.dumps(run(tf, int(number)))), want)]
    assert not wrong
