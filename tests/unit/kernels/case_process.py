"""Processes that run cases one after the other: a case that kills its process, or hangs, is a fault too."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
WITHIN_S = float(os.environ.get("DTF_FUZZ_WITHIN_S", "240"))
"""A case that says nothing for so long hangs; on an idle machine the slowest takes a second or two."""


def run_from(module: str, args: Sequence[object], folder: Path, outcomes: Counter[str]) -> tuple[int, str | None]:
    """Run cases in one process until all have ended or one was bad; gives its number, or -1, and what was bad.

    Args:
        module: prints `NUMBER begins WHAT` before and `NUMBER ends OUTCOME` after each case.
    """
    command = [sys.executable, "-m", f"tests.unit.kernels.{module}", *map(str, args)]
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
    at, what, ended = -1, "", True
    try:
        while (line := lines.get(timeout=WITHIN_S)) is not None:
            number, word, rest = line.split(" ", 2)
            at, ended = int(number), word == "ends"
            if not ended:
                what = rest
            elif rest.startswith("FAULT"):
                return at, f"{at} {what}: {rest}"
            else:
                outcomes[rest] += 1
        code = process.wait()
        if code == 0 and ended:
            return -1, None
        said = (folder / "stderr").read_text(errors="replace")[-2000:]
        name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return at, f"{at} {what}: the process ended with {name}\n{said}"
    except queue.Empty:
        return at, f"{at} {what}: said nothing for {WITHIN_S:g} s"
    finally:
        process.kill()
        process.wait()
        reader.join()
