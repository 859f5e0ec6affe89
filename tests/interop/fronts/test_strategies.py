"""Strategies find here what they find with TensorFlow: weights, names, values of replicas, parts of batches.

What it found is in golden_strategies.json.gz; with DTF_TEST_TENSORFLOW set it is asked again, and each restores what
the other has saved. DTF_TEST_RECORD=1 then replaces the golden results.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import dtfctl.runtime as tf
from tests.interop.fronts.strategies import PROGRAMS, restored, training
from tests.interop.fronts.test_fronts import close

HERE = Path(__file__).parent
GOLDEN = HERE / "golden_strategies.json.gz"


def same(have: Any, want: Any, where: str) -> None:
    if isinstance(want, dict):
        assert have.keys() == want.keys(), where
        for key in want:
            same(have[key], want[key], f"{where}: {key}")
    else:
        assert close(have, want), (where, have, want)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_strategy_finds_what_it_finds_with_tensorflow(name: str) -> None:
    want = json.loads(gzip.decompress(GOLDEN.read_bytes()))[name]
    same(json.loads(json.dumps(PROGRAMS[name](tf))), want, name)


def test_strategies_live(tmp_path: Path) -> None:
    """TensorFlow still finds what is golden, and checkpoints of two replicas are read both ways."""
    python = os.environ.get("DTF_TEST_TENSORFLOW")
    if not python:
        pytest.skip("set DTF_TEST_TENSORFLOW to the python of an environment with tensorflow==2.21")
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    mine = training(tf, tmp_path / "ours")["mirrored 2, adam"]["values"]
    subprocess.run(
        [python, "-m", "tests.interop.fronts.strategies", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        timeout=600,
    )
    found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
    read_there = found.pop("restored")
    if os.environ.get("DTF_TEST_RECORD"):
        GOLDEN.write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))
    golden = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    same(found, golden, "")
    theirs = found["training"]["mirrored 2, adam"]["values"]
    for strategy, values in read_there.items():
        same(values, json.loads(json.dumps(mine)), f"saved here, restored there by {strategy}")
    for strategy, values in restored(tf, tmp_path / "theirs").items():
        same(values, theirs, f"saved there, restored here by {strategy}")
