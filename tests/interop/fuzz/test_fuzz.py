"""Programs made at random do here what they do with TensorFlow; the first of them are recorded.

Compared are names, types and static shapes of what they make, kinds of errors, values, gradients and trained variables.
With DTF_TEST_TENSORFLOW set, `make nightly` compares hundreds more; DTF_TEST_RECORD=1 records the first again.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

import dtfctl.runtime as tf
from tests.interop.fuzz import compare
from tests.interop.fuzz.run import run

GOLDEN = Path(__file__).parent / "golden.json.gz"
RECORDED, NIGHTLY = 24, 300


def golden() -> dict[str, Any]:
    with gzip.open(GOLDEN, "rt") as file:
        return dict(json.load(file))


def theirs(python: str, folder: Path, first: int, count: int) -> dict[int, Any]:
    process = compare.start(python, folder / "out", first, count, ours=False)
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()[-3000:]
    return compare.read(folder / "out")


def wrong(number: int, want: Any) -> list[Any]:
    return list(compare.differences(json.loads(json.dumps(run(tf, number))), want))


@pytest.mark.parametrize("part", range(4))
def test_random_programs_do_what_was_recorded(part: int) -> None:
    recorded = golden()
    assert len(recorded) == RECORDED
    chosen = [n for n in recorded if int(n) % 4 == part]
    assert {n: found for n in chosen if (found := wrong(int(n), recorded[n]))} == {}


def test_random_programs_live(tensorflow_python: str, tmp_path: Path) -> None:
    found = theirs(tensorflow_python, tmp_path, 0, RECORDED)
    if os.environ.get("DTF_TEST_RECORD"):
        data = json.dumps({str(n): v for n, v in found.items()}, separators=(",", ":"))
        with gzip.GzipFile(GOLDEN, "wb", mtime=0) as file:
            file.write(data.encode())
    assert {n: d for n, want in golden().items() if (d := list(compare.differences(found[int(n)], want)))} == {}


@pytest.mark.nightly
def test_many_random_programs(tensorflow_python: str, tmp_path: Path) -> None:
    found = theirs(tensorflow_python, tmp_path, 10_000, NIGHTLY)
    assert {n: d[:2] for n, want in found.items() if (d := wrong(n, want))} == {}
