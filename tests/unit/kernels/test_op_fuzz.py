"""Whatever an op is given, it ends, with a value or with an error that says what was wrong."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.kernels import op_fuzz

SEED = int(os.environ.get("DTF_FUZZ_SEED", "1"))
ROOT = Path(__file__).parents[3]
WITHIN_S = float(os.environ.get("DTF_FUZZ_WITHIN_S", "240"))
"""A case that says nothing for so long hangs; on an idle machine the slowest takes a second or two."""


def _run_from(first: int, end: int, folder: Path, outcomes: Counter[str]) -> tuple[int, str | None]:
    """Run cases in one process until all have ended or one was bad; gives the next number and what was bad."""
    command = [sys.executable, "-m", "tests.unit.kernels.op_fuzz", str(SEED), str(first), str(end)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder, env=env)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip())
        lines.put(None)

    reader = threading.Thread(target=read)
    reader.start()
    at, op, ended = first, "", True
    try:
        while (line := lines.get(timeout=WITHIN_S)) is not None:
            number, what, rest = line.split(" ", 2)
            at, ended = int(number), what == "ends"
            if not ended:
                op = rest
            elif rest.startswith("FAULT"):
                return at + 1, f"{at} {op}: {rest}"
            else:
                outcomes[rest] += 1
        code = process.wait()
        if code == 0 and ended and at == end - 1:
            return end, None
        said = (folder / "stderr").read_text(errors="replace")[-2000:]
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return at + 1, f"{at} {op}: the process ended with {name}\n{said}"
    except queue.Empty:
        return at + 1, f"{at} {op}: said nothing for {WITHIN_S:g} s"
    finally:
        process.kill()
        process.wait()
        reader.join()


@pytest.mark.parametrize("count", [600, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_random_ops_end_with_a_value_or_an_error_of_theirs(tmp_path: Path, count: int) -> None:
    faults: list[str] = []
    outcomes: Counter[str] = Counter()
    at = 0
    while at < count and len(faults) < 50:
        at, fault = _run_from(at, count, tmp_path, outcomes)
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
