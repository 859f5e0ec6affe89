"""Whatever an op is given, it ends, with a value or with an error that says what was wrong."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.kernels import op_fuzz
from tests.unit.kernels.case_process import run_from

SEED = int(os.environ.get("DTF_FUZZ_SEED", "1"))


@pytest.mark.parametrize("count", [600, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_random_ops_end_with_a_value_or_an_error_of_theirs(tmp_path: Path, count: int) -> None:
    faults: list[str] = []
    outcomes: Counter[str] = Counter()
    at = 0
    while at < count and len(faults) < 50:
        bad, fault = run_from("op_fuzz", (SEED, at, count), tmp_path, outcomes)
        at = count if fault is None else max(at, bad) + 1
        if fault is not None:
            faults.append(fault)
    assert not faults, (
        f"{len(faults)} of {at} cases; `python -m tests.unit.kernels.op_fuzz {SEED} NUMBER` runs one again:\n"
        + "\n".join(faults)
    )
    # Cases that were all refused would show nothing.
    assert outcomes["value"] > count / 10 and outcomes["refused"] > count / 10


def test_no_op_is_left_out_that_is_a_function_of_tensors() -> None:
    names = op_fuzz.ops()
    assert len(names) > 500
    assert "MatrixLogarithm" in names
