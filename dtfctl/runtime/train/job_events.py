"""What a job tells TensorBoard without a word of its script: event files in the folder of its checkpoints.

The chief writes them to `tensorboard` there: the numbers that are reported as progress and how many steps are done a
second, the graph, what its nodes took in one step, and what the job was started with (hyperparameters).
"""

from __future__ import annotations

import atexit
import functools
import json
import logging
import math
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2

from dtfctl.protocol import hparams_pb2, summary_pb2, tensor_pb2
from dtfctl.runtime.train.summary_io import FileWriter

log = logging.getLogger("dtfctl.train")

FOLDER = "tensorboard"
HPARAMS = "DTF_HPARAMS"
"""A JSON object of a job's hyperparameters, by name: numbers, texts, true and false."""
RATE = "global_step/sec"
LEAST_S = 1.0
"""What is reported more often is left out, but for the last."""
_PLUGIN, _BEGUN = "hparams", "_hparams_/session_start_info"


class JobEvents:
    """Writes what a job reports. Methods may be called from any thread.

    Args:
        folder: where the event files go; it is made.
    """

    def __init__(self, folder: Path) -> None:
        self._writer = FileWriter(str(folder))
        self._lock = threading.Lock()
        self._last: tuple[int, float] | None = None
        self._told: dict[str, float] = {}
        self._left_out: dict[str, tuple[int, float]] = {}
        """By name the newest that is not written: the step, and the number."""

    def report(self, step: int, metrics: Mapping[str, float], now: float) -> None:
        """Write numbers of a step, and the rate since the last ones.

        Args:
            now: seconds of any clock that goes on.
        """
        with self._lock:
            last = self._last
            begins = last is None or step < last[0]
            if begins:
                self._told.clear()
                self._left_out.clear()
            # Each by itself: who reports a step alone does not silence who then reports its loss.
            values = {
                name: value for name, value in metrics.items() if now - self._told.get(name, -math.inf) >= LEAST_S
            }
            self._told |= dict.fromkeys(values, now)
            self._left_out |= {name: (step, value) for name, value in metrics.items()}
            for name in values:
                del self._left_out[name]
            if last is None or begins or now - last[1] >= LEAST_S:
                if last is not None and not begins and step > last[0]:
                    values[RATE] = (step - last[0]) / (now - last[1])
                self._last = step, now
        if values:
            self._write(step, values)

    def close(self) -> None:
        """Write what was reported last, if it was left out."""
        with self._lock:
            left, self._left_out = self._left_out, {}
        for name, (step, value) in left.items():
            self._write(step, {name: value})

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        summary = summary_pb2.Summary()
        for name, value in values.items():
            summary.value.add(tag=name, simple_value=value)
        self._writer.add_summary(summary, step)
        # A writer looks at the time when the next event comes: the last would be lost, and others be seen one late.
        self._writer.flush()

    def graph(self, graph: Any) -> None:
        self._writer.add_graph(graph)

    def traced(self, metadata: Any, step: int) -> None:
        """Write what the nodes of a step took."""
        self._writer.add_run_metadata(metadata, f"step {step}", step)
        self._writer.flush()

    def hyperparameters(self, values: Mapping[str, Any], group: str) -> None:
        """Write what the job was started with, for TensorBoard's page of hyperparameters.

        Args:
            group: what it is called there.
        """
        begun = hparams_pb2.SessionStartInfo(group_name=group, start_time_secs=time.time())
        for name, value in values.items():
            begun.hparams[name].CopyFrom(_value(value))
        content = hparams_pb2.HParamsPluginData(version=0, session_start_info=begun).SerializeToString()
        summary = summary_pb2.Summary()
        told = summary.value.add(tag=_BEGUN)
        told.metadata.plugin_data.plugin_name, told.metadata.plugin_data.content = _PLUGIN, content
        # A tensor of one float, which is not looked at.
        told.tensor.dtype = tensor_pb2.DT_FLOAT
        told.tensor.tensor_shape.SetInParent()
        told.tensor.float_val.append(0.0)
        self._writer.add_summary(summary)
        self._writer.flush()


def _value(value: Any) -> struct_pb2.Value:
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, (int, float)):
        return struct_pb2.Value(number_value=value)
    return struct_pb2.Value(string_value=value if isinstance(value, str) else json.dumps(value))


@functools.cache
def own_events() -> JobEvents | None:
    """Open those of this process's job; None outside a job, in processes that are not its chief, and without folder."""
    folder = os.environ.get("DTF_CHECKPOINT_DIR")
    if not folder or not os.environ.get("DTF_JOB_ID") or os.environ.get("DTF_IS_CHIEF") != "1":
        return None
    try:
        events = JobEvents(Path(folder) / FOLDER)
        if given := os.environ.get(HPARAMS):
            events.hyperparameters(_parsed(given), os.environ["DTF_JOB_ID"])
        atexit.register(_ended, events)
        return events
    except OSError as e:
        log.warning("nothing is written for TensorBoard: %s", e)  # training is worth more than its plots
        return None


def _ended(events: JobEvents) -> None:
    try:
        events.close()
    except OSError as e:
        log.warning("the last numbers are not written for TensorBoard: %s", e)


def _parsed(text: str) -> dict[str, Any]:
    """Read hyperparameters. Raises ValueError: it is no JSON object."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise ValueError(f"{HPARAMS} is {text[:100]!r}: it has to be a JSON object")
    return values


def told(step: int, metrics: Mapping[str, float]) -> None:
    """Write what is reported, in a job's chief."""
    events = own_events()
    if events is not None:
        try:
            events.report(step, metrics, time.monotonic())
        except OSError as e:
            log.warning("nothing more is written for TensorBoard: %s", e)
