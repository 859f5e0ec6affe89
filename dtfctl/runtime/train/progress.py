"""Telling the submitter how far a job is: what `dtfctl submit` draws its progress bar from.

A job's client process finds the file to append to in DTF_PROGRESS_FILE; outside a job nothing is written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfctl.runtime.train.training_util import get_global_step

PROGRESS_FILE = "DTF_PROGRESS_FILE"


def report(step: int, total: int | None = None, **metrics: float) -> bool:
    """Append one progress record.

    Args:
        step: steps done; total: steps to do, when known.
        metrics: numbers to show, such as loss and accuracy.

    Returns:
        Whether there was a submitter to tell.
    """
    path = os.environ.get(PROGRESS_FILE)
    if not path:
        return False
    record = {
        "step": int(step),
        "total": None if total is None else int(total),
        "metrics": {k: float(v) for k, v in metrics.items()},
        "time": time.time(),
    }
    with open(path, "a", encoding="utf-8") as f:
        f.write(json.dumps(record) + "\n")
    return True


class ProgressHook(SessionRunHook):
    """Reports the global step, and scalar tensors, at most every `every_secs` seconds.

    Args:
        total: the last step; metrics: name -> scalar tensor, fetched when a report is due.
    """

    def __init__(
        self, total: int | None = None, metrics: Mapping[str, Any] | None = None, every_secs: float = 0.25
    ) -> None:
        self._total, self._metrics, self._every = total, dict(metrics or {}), every_secs
        self._due_at = 0.0
        self._latest: dict[str, float] = {}

    def begin(self) -> None:
        step = get_global_step()
        if step is None:
            raise RuntimeError("Global step should be created to use ProgressHook.")
        self._step = step.value()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._due = time.monotonic() >= self._due_at
        return SessionRunArgs({"step": self._step, **self._metrics}) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._due:
            values = dict(run_values.results)
            step = values.pop("step")
            self._latest = {name: float(value) for name, value in values.items()}
            report(step, self._total, **self._latest)
            self._due_at = time.monotonic() + self._every

    def end(self, session: Any) -> None:
        report(int(session.run(self._step)), self._total, **self._latest)
