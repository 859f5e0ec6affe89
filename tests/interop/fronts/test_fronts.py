"""TF1 programs give here what they give with TensorFlow: values, variables, names, checkpoints.

What TensorFlow 2.21 gave is in golden.json.gz. With DTF_TEST_TENSORFLOW set the programs are run with it again, which
also reads the checkpoints written here; DTF_TEST_RECORD=1 then replaces the golden results.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.interop.fronts.programs import PROGRAMS
from tests.interop.fronts.record import run

HERE = Path(__file__).parent
GOLDEN = HERE / "golden.json.gz"
# Ops of TensorFlow's graphs that have another name or form here, by program: it may only grow shorter. Constants, and
# what is inside gradients and control flow, are left out.
OTHERS = json.loads((HERE / "other_names.json").read_text())
INSIDE = re.compile(r"(^|/)gradients(_\d+)?/|(^|/)(while|cond|case|map|scan|foldl|rnn)(_\d+)?/|_grad/|/Initializer/")
# What sums up float32 differently, or follows a square root near zero.
RELATIVE, ABSOLUTE = 2e-4, 2e-5


def _load(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        return dict(json.load(file))


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return _load(GOLDEN)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the programs did here, as they are asked for."""
    return {"": tmp_path_factory.mktemp("checkpoints")}


def ours(records: dict[str, Any], name: str) -> Any:
    if name not in records:
        records[name] = json.loads(json.dumps(run(tf, name, str(records[""] / "ours" / name))))
    return records[name]


def missing_names(have: Any, want: Any) -> list[str]:
    """TensorFlow's computing ops, outside gradients and control flow, that are not here under the same name."""
    mine = {tuple(node) for node in have["nodes"]}
    theirs = [node for node in want["nodes"] if node[1] not in ("Const", "NoOp") and not INSIDE.search(node[0])]
    return sorted({name for name, op in theirs if (name, op) not in mine})


def close(a: Any, b: Any) -> bool:
    """Whether two descriptions are the same but for rounding."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, RELATIVE, ABSOLUTE, equal_nan=True))
    return bool(a == b)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_with_tensorflow(
    name: str, golden: dict[str, Any], records: dict[str, Any]
) -> None:
    """Variables by name, shape, type and kind; their initial values; what each run fetches; what a checkpoint holds."""
    want, have = golden[name], ours(records, name)
    assert have["variables"] == want["variables"]
    assert have["trainable"] == want["trainable"]
    assert close(have["initial"], want["initial"])
    for i, (mine, theirs) in enumerate(zip(have["values"], want["values"], strict=True)):
        assert close(mine, theirs), (i, mine, theirs)
    assert close(have["saved"], want["saved"])
    assert set(missing_names(have, want)) <= set(OTHERS.get(name, ()))


def test_programs_and_checkpoints_live(
    tensorflow_python: str, golden: dict[str, Any], records: dict[str, Any], tmp_path: Path
) -> None:
    """TensorFlow still gives what is golden, reads the checkpoints written here, and its own are read here."""
    folder = records[""]
    for name in PROGRAMS:
        ours(records, name)
    (folder / "theirs").mkdir()
    subprocess.run(
        [tensorflow_python, "-m", "tests.interop.fronts.record", str(tmp_path / "out.gz"), str(folder)],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_USE_LEGACY_KERAS": "1"},
        timeout=1200,
    )
    theirs = _load(tmp_path / "out.gz")
    if os.environ.get("DTF_TEST_RECORD"):
        shutil.copy(tmp_path / "out.gz", GOLDEN)
        golden = theirs
    for name in PROGRAMS:
        assert "error" not in theirs[name], (name, theirs[name]["error"])
        assert theirs[name]["nodes"] == golden[name]["nodes"], name
        assert close(theirs[name]["values"], golden[name]["values"]), name
        if theirs[name]["restored"] is not None:
            again = run(tf, name, str(folder / "again" / name), str(folder / "theirs" / name))
            kept = {v[0][:-2]: r for v, r in zip(again["variables"], again["restored"], strict=False)}
            mine = {v[0][:-2]: r for v, r in zip(theirs[name]["variables"], theirs[name]["restored"], strict=False)}
            for key in mine:
                assert close(json.loads(json.dumps(kept[key])), mine[key]), (name, key)
