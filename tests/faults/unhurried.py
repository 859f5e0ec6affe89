"""Run a training program that rests after each step: faults are to be survived, and steps between them prove nothing.

unhurried.py PROGRAM [its arguments]
"""

from __future__ import annotations

import runpy
import sys
import time
from typing import Any

import dtfctl.runtime as tf

REST_S = 0.01


class Rest(tf.train.SessionRunHook):
    def after_run(self, run_context: Any, run_values: Any) -> None:
        time.sleep(REST_S)


if __name__ == "__main__":
    session = tf.train.MonitoredTrainingSession
    tf.train.MonitoredTrainingSession = lambda *args, hooks=None, **more: session(
        *args, hooks=[*(hooks or ()), Rest()], **more
    )
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
