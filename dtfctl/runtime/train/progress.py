"""Telling the submitter how far a job is: what `dtfctl submit` draws its progress bar from, and notes for `events`.

A job's client process finds the file to append to in DTF_PROGRESS_FILE; outside a job nothing is written.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import functools
import json
import logging
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from dtfctl.runtime.train.job_events import told
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfctl.runtime.train.training_util import get_global_step

log = logging.getLogger("dtfctl.train")

PROGRESS_FILE = "DTF_PROGRESS_FILE"
SAVE_LOOK_S = 1.0
LOOK_BACK = 64 * 2**10
"""Bytes at the end of the file among which the newest step is looked for."""


def report(step: int, total: int | None = None, **metrics: float) -> bool:
    """Append one progress record.

    Args:
        step: steps done; total: steps to do, when known.
        metrics: numbers to show, such as loss and accuracy.

    In a job its chief writes them for TensorBoard, too (`train.job_events`).

    Returns:
        Whether there was a submitter to tell.
    """
    numbers = {k: float(v) for k, v in metrics.items()}
    told(int(step), numbers)
    return _append(
        {"step": int(step), "total": None if total is None else int(total), "metrics": numbers, "time": time.time()}
    )


def is_told() -> bool:
    """Tell whether there is a submitter to tell."""
    return bool(os.environ.get(PROGRESS_FILE))


def note(text: str) -> bool:
    """Tell the submitter what happened, in one sentence: it becomes an event of the job.

    Returns:
        Whether there was a submitter to tell.
    """
    return _append({"note": text, "time": time.time()})


def _append(record: Mapping[str, Any]) -> bool:
    path = os.environ.get(PROGRESS_FILE)
    if not path:
        return False
    _be_ready_to_dump()
    try:
        with open(path, "a", encoding="utf-8") as f:
            f.write(json.dumps(record) + "\n")
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
        log.warning("progress is not told: %s", e)  # training is worth more than its progress bar
        return False
    return True


@functools.cache
def _be_ready_to_dump() -> None:
    """Be ready to dump: if it stops to report progress, its stacks are asked for with SIGUSR1 before it is
    restarted."""
    if signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
        faulthandler.register(signal.SIGUSR1, all_threads=True)


class SaveWanted:
    """Tells whether a checkpoint is wanted at once: the launcher changes a file beside the progress file for that."""

    def __init__(self) -> None:
        path = os.environ.get(PROGRESS_FILE)
        self._path = f"{path}.save" if path else ""
        self._seen = self._read()
        self._next = 0.0

    def look(self) -> bool:
        """Look, once a second at the most, whether it has become so since the last time."""
        if not self._path or (now := time.monotonic()) < self._next:
            return False
        self._next = now + SAVE_LOOK_S
        before, self._seen = self._seen, self._read()
        return self._seen != before

    def _read(self) -> int:
        try:
            return os.stat(self._path).st_mtime_ns if self._path else 0
        except OSError:
            return 0


def last_reported() -> int | None:
    """Return the step this process, or the one it replaces, reported last."""
    path = os.environ.get(PROGRESS_FILE)
    if not path or not os.path.exists(path):
        return None
    with open(path, "rb") as f:
        f.seek(max(0, os.path.getsize(path) - LOOK_BACK))
        lines = f.read().splitlines()
    for line in reversed(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return int(json.loads(line)["step"])
    return None


def tell_beginning(step: int | None, how: str) -> None:
    """Tell from where the training goes on, and what was lost.

    Args:
        step: the global step, None where there is none; how: `from model.ckpt-40`, or why it does not go on.
    """
    before = last_reported()
    if step is None:
        note(f"begins: {how}")
    elif before is not None and step < before:
        lost = f"steps up to {before} had been done: {before - step} are lost"
        note(f"{'goes on from' if step else 'begins again at'} step {step}; {lost} ({how})")
    else:
        note(f"{'goes on from' if step else 'begins at'} step {step} ({how})")


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
