"""TF1 programs give here what they give with TensorFlow: values, variables, names, checkpoints.

What TensorFlow 2.21 gave is in golden.json.gz. With DTF_TEST_TENSORFLOW set the programs are run with it again, which
also reads the checkpoints written here; DTF_TEST_RECORD=1 then replaces the golden results. The same holds for
TensorFlow 1.15, golden_1_15.json.gz and DTF_TEST_TENSORFLOW_1.
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
from tests.interop.fronts.programs import OLDER, PROGRAMS
from tests.interop.fronts.record import run

HERE = Path(__file__).parent
GOLDEN = {"DTF_TEST_TENSORFLOW": HERE / "golden.json.gz", "DTF_TEST_TENSORFLOW_1": HERE / "golden_1_15.json.gz"}
BY_JUDGE = {"DTF_TEST_TENSORFLOW": PROGRAMS, "DTF_TEST_TENSORFLOW_1": OLDER}
# Ops of TensorFlow's graphs that have another name or form here, by program: it may only grow shorter. Constants, and
# what is inside gradients and control flow, are left out.
OTHERS = {
    name: others
    for file in ("other_names.json", "other_names_1_15.json")
    for name, others in json.loads((HERE / file).read_text()).items()
}
INSIDE = re.compile(r"(^|/)gradients(_\d+)?/|(^|/)(while|cond|case|map|scan|foldl|rnn)(_\d+)?/|_grad/|/Initializer/")
# What sums up float32 differently, or follows a square root near zero.
RELATIVE, ABSOLUTE = 2e-4, 2e-5


def _load(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        return dict(json.load(file))


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return {name: record for path in GOLDEN.values() for name, record in _load(path).items()}


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


@pytest.mark.parametrize("name", [*PROGRAMS, *OLDER])
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


@pytest.mark.parametrize("judge", BY_JUDGE)
def test_programs_and_checkpoints_live(
    judge: str, golden: dict[str, Any], records: dict[str, Any], tmp_path: Path
) -> None:
    """TensorFlow still gives what is golden, reads the checkpoints written here, and its own are read here."""
    python = os.environ.get(judge)
    if not python:
        pytest.skip(f"set {judge} to the python of an environment with TensorFlow")
    folder, programs = records[""], BY_JUDGE[judge]
    for name in programs:
        ours(records, name)
    (folder / "theirs").mkdir(exist_ok=True)
    subprocess.run(
        [python, "-m", "tests.interop.fronts.record", str(tmp_path / "out.gz"), str(folder)],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_USE_LEGACY_KERAS": "1"},
        timeout=1200,
    )
    theirs = _load(tmp_path / "out.gz")
    if os.environ.get("DTF_TEST_RECORD"):
        shutil.copy(tmp_path / "out.gz", GOLDEN[judge])
        golden = theirs
    for name in programs:
        assert "error" not in theirs[name], (name, theirs[name]["error"])
        assert theirs[name]["nodes"] == golden[name]["nodes"], name
        assert close(theirs[name]["values"], golden[name]["values"]), name
        if theirs[name]["restored"] is not None:
            again = run(tf, name, str(folder / "again" / name), str(folder / "theirs" / name))
            kept = {v[0][:-2]: r for v, r in zip(again["variables"], again["restored"], strict=False)}
            mine = {v[0][:-2]: r for v, r in zip(theirs[name]["variables"], theirs[name]["restored"], strict=False)}
            for key in mine:
                assert close(json.loads(json.dumps(kept[key])), mine[key]), (name, key)
