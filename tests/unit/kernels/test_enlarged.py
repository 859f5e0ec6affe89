"""Whatever is made too large is refused before it is allocated, or is not as large as it seems."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.unit.kernels.case_process import run_from


@pytest.mark.parametrize("step", [pytest.param(11, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.nightly)])
def test_what_cannot_be_is_not_tried(tmp_path: Path, step: int) -> None:
    faults: list[str] = []
    outcomes: Counter[str] = Counter()
    at = 0
    while at >= 0 and len(faults) < 20:
        bad, fault = run_from("enlarged", (at, step), tmp_path, outcomes)
        if fault is not None:
            faults.append(fault)
        at = bad + step if bad >= 0 else -1
    assert not faults, "\n".join(faults)
    # Cases that were all refused for other reasons, or none, would show nothing.
    assert outcomes["refused"] > 50 and outcomes["value"] > 20
