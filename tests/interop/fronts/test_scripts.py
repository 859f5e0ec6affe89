"""Programs in the manner of well-known repositories, run as they are: what they print, save and log is TensorFlow's.

Each is a script that imports `tensorflow`. Here `python -m dtfctl.run` runs it, without that; what TensorFlow 2.21
gave is in golden_scripts.json.gz. With DTF_TEST_TENSORFLOW set the scripts are run with it again, which must also show
the checkpoints written here as its own; DTF_TEST_RECORD=1 then replaces the golden results.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

HERE = Path(__file__).parent
GOLDEN = HERE / "golden_scripts.json.gz"
SCRIPTS = {path.stem: path for path in sorted((HERE / "scripts").glob("*.py"))}
_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?|nan|inf")
# What sums up float32 differently, over a few steps of training, printed with few digits.
RELATIVE, ABSOLUTE = 2e-3, 2e-4
SHOW = """
import json, sys
import tensorflow.compat.v1 as tf
for path in sys.argv[1:]:
    reader = tf.train.load_checkpoint(path)
    shapes = reader.get_variable_to_shape_map()
    held = {n: reader.get_tensor(n) for n in sorted(shapes)}
    print(json.dumps([[n, shapes[n], 0.0 if isinstance(v, bytes) else float(abs(v).sum())] for n, v in held.items()]))
"""


def run(command: list[str], name: str, folder: Path) -> dict[str, Any]:
    """Run one script in an empty folder and describe what came of it."""
    folder.mkdir(parents=True)
    arguments = re.findall(r"^# args: (.*)$", SCRIPTS[name].read_text(), re.MULTILINE)
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_USE_LEGACY_KERAS": "1"}
    process = subprocess.run(
        [*command, str(SCRIPTS[name]), *(arguments[0].split() if arguments else ())],
        cwd=folder,
        env={**os.environ, **quiet, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return {"prints": process.stdout, "checkpoints": _checkpoints(folder), "events": _events(folder)}


def _checkpoints(folder: Path) -> dict[str, Any]:
    found = {}
    for index in sorted(folder.rglob("*.index")):
        reader = tf.train.NewCheckpointReader(str(index.with_suffix("")))
        held = {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}
        # What a checkpoint of objects says of these is text.
        found[str(index.relative_to(folder))] = [
            [n, list(np.shape(v)), np.asarray(v).dtype.name, float(np.abs(v).sum())]
            if not isinstance(v, bytes)
            else [n, [], "text", 0.0]
            for n, v in held.items()
        ]
    return found


def _events(folder: Path) -> list[Any]:
    found: list[Any] = []
    for file in sorted(folder.rglob("*tfevents*")):
        where = str(file.parent.relative_to(folder))
        for event in tf.train.summary_iterator(str(file)):
            if event.WhichOneof("what") != "summary":
                found.append([where, event.WhichOneof("what")])
            found += [[where, event.step, v.tag, v.WhichOneof("value")] for v in event.summary.value]
    return found


def as_printed(mine: str, theirs: str) -> bool:
    """Whether two texts have the same words, and numbers that are close; arrays may be wrapped otherwise."""
    one, other = (_NUMBER.sub("#", "".join(text.split())) for text in (mine, theirs))
    a, b = ([float(n) for n in _NUMBER.findall(text)] for text in (mine, theirs))
    return one == other and bool(np.allclose(a, b, RELATIVE, ABSOLUTE, equal_nan=True))


def same(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert as_printed(mine["prints"], theirs["prints"]), (mine["prints"], theirs["prints"])
    assert mine["events"] == theirs["events"]
    assert mine["checkpoints"].keys() == theirs["checkpoints"].keys()
    for file, held in mine["checkpoints"].items():
        wanted = theirs["checkpoints"][file]
        assert [v[:3] for v in held] == [v[:3] for v in wanted], file
        np.testing.assert_allclose([v[3] for v in held], [v[3] for v in wanted], RELATIVE, ABSOLUTE, err_msg=file)


def _recorded() -> dict[str, Any]:
    with gzip.open(GOLDEN, "rt") as file:
        return dict(json.load(file))


def record(name: str, found: dict[str, Any]) -> None:
    """Put one script's results among the golden ones."""
    content = json.dumps({**_recorded(), name: found}, separators=(",", ":"), sort_keys=True).encode()
    with GOLDEN.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as file:
        file.write(content)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_does_with_tensorflow(name: str, tmp_path: Path) -> None:
    found = run([sys.executable, "-m", "dtfctl.run"], name, tmp_path / name)
    same(json.loads(json.dumps(found)), _recorded()[name])
    python = os.environ.get("DTF_TEST_TENSORFLOW")
    paths = [str(tmp_path / name / file.removesuffix(".index")) for file in found["checkpoints"]]
    if python and paths:
        said = subprocess.run([python, "-c", SHOW, *paths], check=True, capture_output=True, text=True).stdout
        for line, held in zip(said.splitlines(), found["checkpoints"].values(), strict=True):
            shown = json.loads(line)
            assert [v[:2] for v in shown] == [v[:2] for v in held]
            np.testing.assert_allclose([v[2] for v in shown], [v[3] for v in held], rtol=1e-5)


@pytest.mark.parametrize("name", SCRIPTS)
def test_tensorflow_does_what_is_recorded(name: str, tensorflow_python: str, tmp_path: Path) -> None:
    found = json.loads(json.dumps(run([tensorflow_python], name, tmp_path / name)))
    if os.environ.get("DTF_TEST_RECORD"):
        record(name, found)
    same(found, _recorded()[name])
